package demo

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

//go:embed workshop.json
var workshopOffer []byte

// passTime is how long one pass over the stone takes.
const passTime = 200 * time.Millisecond

// newWorkshop makes the server of the workshop. A pass over the stone takes
// pass.
func newWorkshop(pass time.Duration) *server {
	s := newServer("workshop", "Workshop", "Small helpers for a metal workshop: units, bolts and drills.", workshopOffer)
	s.tools = map[string]tool{
		"convert_units": convertUnits,
		"bolt_size":     boltSize,
		"drill_speed":   drillSpeed,
		"roll_dice":     rollDice,
		"sharpen_drill": func(c *call) (output, error) { return sharpenDrill(c, pass) },
	}
	s.prompt = planJob
	s.content = func(uri string) (mime, text string, ok bool) {
		return "text/markdown", boltTable(), uri == "workshop://bolts"
	}
	return s
}

// unit is a unit of measurement: value × factor + offset is in the base unit
// of its kind.
type unit struct {
	kind           string
	factor, offset float64
}

var units = map[string]unit{
	"mm": {"length", 1e-3, 0}, "cm": {"length", 1e-2, 0}, "m": {"length", 1, 0},
	"in": {"length", 0.0254, 0}, "ft": {"length", 0.3048, 0},
	"g": {"mass", 1e-3, 0}, "kg": {"mass", 1, 0}, "oz": {"mass", 0.028349523125, 0}, "lb": {"mass", 0.45359237, 0},
	"degC": {"temperature", 1, 273.15}, "degF": {"temperature", 5.0 / 9, 459.67 * 5 / 9},
	"N.m": {"torque", 1, 0}, "lbf.ft": {"torque", 1.3558179483314004, 0},
}

func convertUnits(c *call) (output, error) {
	var in struct {
		Value *float64 `json:"value"`
		From  string   `json:"from"`
		To    string   `json:"to"`
	}
	if err := c.arguments(&in); err != nil {
		return output{}, err
	}
	from, okFrom := units[in.From]
	to, okTo := units[in.To]
	switch {
	case in.Value == nil:
		return output{}, errors.New("value is missing")
	case !okFrom || !okTo:
		return output{}, fmt.Errorf("the units are %s", sortedNames(units))
	case from.kind != to.kind:
		return output{}, fmt.Errorf("%s is a unit of %s and %s one of %s", in.From, from.kind, in.To, to.kind)
	}
	value := rounded((*in.Value*from.factor + from.offset - to.offset) / to.factor)
	if math.IsInf(value, 0) {
		return output{}, errors.New("the result is too large for a number")
	}
	return output{
		text: fmt.Sprintf("%v %s = %v %s", *in.Value, in.From, value, in.To),
		data: object{"value": value, "unit": in.To},
	}, nil
}

// rounded drops what a conversion adds by calculating in binary.
func rounded(v float64) float64 {
	const digits = 1e9
	if scaled := v * digits; math.Abs(scaled) < 1<<53 {
		return math.Round(scaled) / digits
	}
	return v
}

func sortedNames[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// bolt is a metric bolt with coarse thread (ISO 261, ISO 273 medium, ISO 4017).
type bolt struct {
	Thread    string  `json:"thread"`
	Pitch     float64 `json:"pitch_mm"`
	TapDrill  float64 `json:"tap_drill_mm"`
	Clearance float64 `json:"clearance_hole_mm"`
	Wrench    float64 `json:"wrench_mm"`
}

var bolts = []bolt{
	{"M3", 0.5, 2.5, 3.4, 5.5},
	{"M4", 0.7, 3.3, 4.5, 7},
	{"M5", 0.8, 4.2, 5.5, 8},
	{"M6", 1, 5, 6.6, 10},
	{"M8", 1.25, 6.8, 9, 13},
	{"M10", 1.5, 8.5, 11, 16},
	{"M12", 1.75, 10.2, 13.5, 18},
}

func boltSize(c *call) (output, error) {
	var in struct {
		Thread string `json:"thread"`
	}
	if err := c.arguments(&in); err != nil {
		return output{}, err
	}
	i := slices.IndexFunc(bolts, func(b bolt) bool { return b.Thread == in.Thread })
	if i < 0 {
		return output{}, fmt.Errorf("thread must be one of M3, M4, M5, M6, M8, M10 and M12, not %q", in.Thread)
	}
	b := bolts[i]
	return output{
		text: fmt.Sprintf("%s × %v: tap drill %v mm, clearance hole %v mm, wrench %v mm", b.Thread, b.Pitch, b.TapDrill, b.Clearance, b.Wrench),
		data: b,
	}, nil
}

func boltTable() string {
	var t strings.Builder
	t.WriteString("| thread | pitch | tap drill | clearance hole | wrench |\n| --- | --- | --- | --- | --- |\n")
	for _, b := range bolts {
		fmt.Fprintf(&t, "| %s | %v | %v | %v | %v |\n", b.Thread, b.Pitch, b.TapDrill, b.Clearance, b.Wrench)
	}
	return t.String()
}

// cuttingSpeed is how fast the edge of a drill of high-speed steel may move, in
// metres a minute.
var cuttingSpeed = map[string]float64{"aluminium": 60, "brass": 45, "plastic": 40, "stainless": 12, "steel": 25}

func drillSpeed(c *call) (output, error) {
	var in struct {
		Diameter float64 `json:"diameter_mm"`
		Material string  `json:"material"`
	}
	if err := c.arguments(&in); err != nil {
		return output{}, err
	}
	speed, ok := cuttingSpeed[in.Material]
	if !ok {
		return output{}, fmt.Errorf("material must be one of %s", sortedNames(cuttingSpeed))
	}
	if err := between("diameter_mm", in.Diameter, 0.1, 100); err != nil {
		return output{}, err
	}
	const step = 10 // no drill press can be set more finely
	rpm := math.Round(speed*1000/(math.Pi*in.Diameter)/step) * step
	return output{text: fmt.Sprintf("Start at %.0f turns per minute for a %v mm drill in %s.", rpm, in.Diameter, in.Material)}, nil
}

func rollDice(c *call) (output, error) {
	in := struct {
		Dice  int `json:"dice"`
		Sides int `json:"sides"`
	}{Dice: 1, Sides: 6}
	if err := c.arguments(&in); err != nil {
		return output{}, err
	}
	if err := errors.Join(between("dice", in.Dice, 1, 20), between("sides", in.Sides, 2, 1000)); err != nil {
		return output{}, err
	}
	sum := 0
	rolled := make([]string, in.Dice)
	for i := range rolled {
		n := 1 + rand.IntN(in.Sides)
		sum += n
		rolled[i] = fmt.Sprint(n)
	}
	return output{text: fmt.Sprintf("%s (sum %d)", strings.Join(rolled, " "), sum)}, nil
}

func sharpenDrill(c *call, pass time.Duration) (output, error) {
	in := struct {
		Passes int `json:"passes"`
	}{Passes: 5}
	if err := c.arguments(&in); err != nil {
		return output{}, err
	}
	if err := between("passes", in.Passes, 1, 20); err != nil {
		return output{}, err
	}
	tick := time.NewTicker(pass)
	defer tick.Stop()
	for i := range in.Passes {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return output{}, fmt.Errorf("stopped after %d passes", i)
		}
		c.progress(float64(i+1), float64(in.Passes), fmt.Sprintf("pass %d of %d", i+1, in.Passes))
	}
	return output{text: fmt.Sprintf("Sharp after %d passes.", in.Passes)}, nil
}

func planJob(_ string, args map[string]string) (string, error) {
	job := args["job"]
	if job == "" {
		return "", errors.New("plan_job needs the argument job")
	}
	of := ""
	if m := args["material"]; m != "" {
		of = " of " + m
	}
	return "Plan this job in a small metal workshop, step by step, with the tools and sizes that each step needs. " +
		"Look sizes and speeds up instead of guessing them.\n\nThe job: " + job + of, nil
}
