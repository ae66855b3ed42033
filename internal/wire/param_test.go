package wire

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestParamHeaders(t *testing.T) {
	for what, tc := range map[string]struct {
		schema string
		want   []ParamHeader
	}{
		"none":           {`{"type":"object","properties":{"a":{"type":"string"}}}`, nil},
		"no schema":      {``, nil},
		"true":           {`true`, nil},
		"boolean schema": {`{"properties":{"x":true,"r":{"type":"string","x-mcp-header":"Region"}}}`, []ParamHeader{{"Region", []string{"r"}, "string"}}},
		"each type, in order": {
			`{"properties":{"z":{"type":"integer","x-mcp-header":"Z"},"a":{"x-mcp-header":"A","type":"boolean"},"m":{"type":"string","x-mcp-header":"m"}}}`,
			[]ParamHeader{{"Z", []string{"z"}, "integer"}, {"A", []string{"a"}, "boolean"}, {"m", []string{"m"}, "string"}},
		},
		"nested": {
			`{"properties":{"a":{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"C"}}},"d":{"type":"string","x-mcp-header":"D"}}},"e":{"type":"string","x-mcp-header":"E"}}}`,
			[]ParamHeader{{"C", []string{"a", "b", "c"}, "string"}, {"D", []string{"a", "d"}, "string"}, {"E", []string{"e"}, "string"}},
		},
		"all characters of a token": {
			"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"aZ09!#$%&'*+-.^_`|~\"}}}",
			[]ParamHeader{{"aZ09!#$%&'*+-.^_`|~", []string{"a"}, "string"}},
		},
		"the name of a standard header": {`{"properties":{"a":{"type":"string","x-mcp-header":"Method"}}}`, []ParamHeader{{"Method", []string{"a"}, "string"}}},
		"spelled with escapes": {
			`{"pr\u006fperties":{"\u0061":{"typ\u0065":"str\u0069ng","\u0078-mcp-header":"\u0052"}}}`,
			[]ParamHeader{{"R", []string{"a"}, "string"}},
		},
		"a property of that name":           {`{"properties":{"x-mcp-header":{"type":"string"}}}`, nil},
		"an annotated property of the name": {`{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"H"}}}`, []ParamHeader{{"H", []string{"x-mcp-header"}, "string"}}},
		"properties named like keywords": {
			`{"properties":{"properties":{"properties":{"enum":{"type":"string","x-mcp-header":"E"}}},"type":{"type":"string","x-mcp-header":"T"}}}`,
			[]ParamHeader{{"E", []string{"properties", "enum"}, "string"}, {"T", []string{"type"}, "string"}},
		},
		"that name in other maps": {
			`{"$defs":{"x-mcp-header":{}},"definitions":{"x-mcp-header":true},"patternProperties":{"x-mcp-header":{}},"dependentSchemas":{"x-mcp-header":{}},"dependentRequired":{"x-mcp-header":["a"]},"dependencies":{"x-mcp-header":["a"]}}`,
			nil,
		},
		"data": {
			`{"properties":{"a":{"enum":[{"x-mcp-header":1}],"const":{"x-mcp-header":""},"default":{"a":[{"x-mcp-header":"A"}]},"examples":[{"x-mcp-header":"A"}]}},"required":["x-mcp-header"],"description":"x-mcp-header"}`,
			nil,
		},
		"names that differ by more than case": {
			`{"properties":{"a":{"type":"string","x-mcp-header":"A-B"},"b":{"type":"string","x-mcp-header":"A_B"}}}`,
			[]ParamHeader{{"A-B", []string{"a"}, "string"}, {"A_B", []string{"b"}, "string"}},
		},
		"a reference beside it":                  {`{"properties":{"a":{"$ref":"#/$defs/s","type":"string","x-mcp-header":"A"}},"$defs":{"s":{}}}`, []ParamHeader{{"A", []string{"a"}, "string"}}},
		"a name that occurs twice elsewhere":     {`{"type":"object","type":"object"}`, nil},
		"deep nesting without any annotation":    {nestedSchema(maxSchemaDepth, `"title":"t"`), nil},
		"text that is not JSON, no annotation":   {`{`, nil},
		"as deep as allowed":                     {nestedSchema(maxSchemaDepth/2-1, `"type":"string","x-mcp-header":"A"`), []ParamHeader{{"A", slicesOf("p", maxSchemaDepth/2-1), "string"}}},
		"as many as allowed":                     {manyAnnotations(MaxParamHeaders), manyParams(MaxParamHeaders)},
		"an unknown keyword with harmless names": {`{"x-vendor":{"header":"x-mcp-header"},"properties":{"a":{"type":"string"}}}`, nil},
	} {
		got, err := ParamHeaders([]byte(tc.schema))
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s:\n got %v, %v\nwant %v", what, got, err, tc.want)
		}
	}
}

// nestedSchema puts a schema with these members into n properties named p.
func nestedSchema(n int, members string) string {
	return strings.Repeat(`{"properties":{"p":`, n) + "{" + members + "}" + strings.Repeat("}}", n)
}

func slicesOf(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func manyAnnotations(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"p%d":{"type":"string","x-mcp-header":"H%d"}`, i, i)
	}
	return `{"properties":{` + b.String()[1:] + `}}`
}

func manyParams(n int) []ParamHeader {
	var out []ParamHeader
	for i := range n {
		out = append(out, ParamHeader{fmt.Sprintf("H%d", i), []string{fmt.Sprintf("p%d", i)}, "string"})
	}
	return out
}

func TestParamHeadersRefuses(t *testing.T) {
	property := func(members string) string { return `{"properties":{"ok":{"type":"string"},"a":{` + members + `}}}` }
	named := func(name string) string { return property(`"type":"string","x-mcp-header":` + name) }
	const leaf = `{"type":"string","x-mcp-header":"A"}`
	for what, tc := range map[string]struct{ schema, want string }{
		"empty":               {named(`""`), "not a header name"},
		"null":                {named(`null`), "not a header name"},
		"a number":            {named(`5`), "not a header name"},
		"an object":           {named(`{"a":"b"}`), "not a header name"},
		"a space":             {named(`"My Region"`), "not a header name"},
		"a colon":             {named(`"Region:Primary"`), "not a header name"},
		"not ASCII":           {named(`"Région"`), "not a header name"},
		"a tab":               {named(`"Region\t1"`), "not a header name"},
		"CR and LF":           {named(`"Region\r\nX: y"`), "not a header name"},
		"NUL":                 {named(`"a\u0000"`), "not a header name"},
		"same name":           {`{"properties":{"a":` + leaf + `,"b":` + leaf + `}}`, "already"},
		"same name but case":  {`{"properties":{"a":` + leaf + `,"b":{"type":"string","x-mcp-header":"a"}}}`, "already"},
		"same name, nested":   {`{"properties":{"a":` + leaf + `,"b":{"properties":{"c":` + leaf + `}}}}`, "already"},
		"number":              {property(`"type":"number","x-mcp-header":"A"`), "type of the property"},
		"object":              {property(`"type":"object","x-mcp-header":"A"`), "type of the property"},
		"array":               {property(`"type":"array","items":{},"x-mcp-header":"A"`), "type of the property"},
		"type null":           {property(`"type":"null","x-mcp-header":"A"`), "type of the property"},
		"no type":             {property(`"x-mcp-header":"A"`), "type of the property"},
		"several types":       {property(`"type":["string","null"],"x-mcp-header":"A"`), "type of the property"},
		"type in other case":  {property(`"type":"String","x-mcp-header":"A"`), "type of the property"},
		"at the root":         {`{"type":"string","x-mcp-header":"A"}`, "reached through properties"},
		"items":               {property(`"type":"array","items":` + leaf), `"/properties/a/items"`},
		"properties of items": {property(`"items":{"properties":{"b":` + leaf + `}}`), "reached through properties"},
		"prefixItems":         {property(`"prefixItems":[{},` + leaf + `]`), `"/properties/a/prefixItems/1"`},
		"contains":            {property(`"contains":` + leaf), "reached through properties"},
		"allOf":               {`{"allOf":[{"properties":{"a":` + leaf + `}}]}`, "reached through properties"},
		"anyOf":               {property(`"anyOf":[` + leaf + `,{"type":"null"}]`), "reached through properties"},
		"oneOf":               {`{"oneOf":[{"properties":{"a":` + leaf + `}}]}`, "reached through properties"},
		"not":                 {`{"not":{"properties":{"a":` + leaf + `}}}`, "reached through properties"},
		"if":                  {`{"if":{"properties":{"a":` + leaf + `}}}`, "reached through properties"},
		"then":                {`{"then":{"properties":{"a":` + leaf + `}}}`, "reached through properties"},
		"else":                {`{"else":{"properties":{"a":` + leaf + `}}}`, "reached through properties"},
		"$defs":               {`{"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":` + leaf + `}}`, `"/$defs/s"`},
		"definitions":         {`{"definitions":{"s":` + leaf + `}}`, "reached through properties"},
		"patternProperties":   {`{"patternProperties":{"^a":` + leaf + `}}`, "reached through properties"},
		"additional":          {`{"additionalProperties":` + leaf + `}`, "reached through properties"},
		"unevaluated":         {`{"unevaluatedProperties":` + leaf + `}`, "reached through properties"},
		"propertyNames":       {`{"propertyNames":` + leaf + `}`, "reached through properties"},
		"dependentSchemas":    {`{"dependentSchemas":{"a":{"properties":{"b":` + leaf + `}}}}`, "reached through properties"},
		"dependencies":        {`{"dependencies":{"a":{"properties":{"b":` + leaf + `}}}}`, "reached through properties"},
		"unknown keyword":     {`{"x-vendor":{"deep":[[{"a":` + leaf + `}]]}}`, "reached through properties"},
		"properties, a list":  {`{"properties":[` + leaf + `]}`, "reached through properties"},
		"schemas in type":     {`{"type":[` + leaf + `]}`, "reached through properties"},
		"a good one and one":  {`{"properties":{"a":` + leaf + `},"items":{"type":"string","x-mcp-header":"B"}}`, `"/items"`},
		"two in one property": {property(`"type":"string","x-mcp-header":"A","x-mcp-header":"B"`), "twice"},
		"two types":           {property(`"type":"string","x-mcp-header":"A","type":"integer"`), "twice"},
		"two properties":      {`{"properties":{"a":` + leaf + `},"properties":{}}`, "twice"},
		"something behind":    {property(`"type":"string","x-mcp-header":"A"`) + `{}`, "twice"},
		"too deep":            {nestedSchema(maxSchemaDepth/2, `"type":"string","x-mcp-header":"A"`), "nested more than"},
		"too many":            {manyAnnotations(MaxParamHeaders + 1), "at most 64"},
		"cut":                 {`{"properties":{"a":{"type":"string","x-mcp-header":"A"}`, "not valid JSON"},
		"in escapes":          {`{"\u0078-mcp-header":"A"}`, "reached through properties"},
	} {
		got, err := ParamHeaders([]byte(tc.schema))
		if err == nil {
			t.Errorf("%s: taken as %v", what, got)
		} else if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: the error %q does not say %q", what, err, tc.want)
		}
	}
}

var paramsOfEachType = []ParamHeader{
	{"Region", []string{"region"}, "string"},
	{"Count", []string{"count"}, "integer"},
	{"Force", []string{"force"}, "boolean"},
	{"Tenant", []string{"where", "tenant"}, "string"},
}

func TestSetParams(t *testing.T) {
	for arguments, want := range map[string]http.Header{
		``:     {},
		`null`: {},
		`{}`:   {},
		`{"region":"us-west1","count":42,"force":false,"where":{"tenant":"acme","other":1},"else":[1]}`: headers(
			"Mcp-Param-Region", "us-west1", "Mcp-Param-Count", "42", "Mcp-Param-Force", "false", "Mcp-Param-Tenant", "acme"),
		`{"region":null,"count":null,"force":null,"where":{"tenant":null}}`: {},
		`{"where":null}`:                {},
		`{"where":[{"tenant":"acme"}]}`: {},
		`{"tenant":"not here","where":{"region":"nor here","where":{"tenant":"nor here"}}}`: {},
		`{"Region":"names are told by case"}`:                                               {},
		`{"force":true}`:                                                                    headers("Mcp-Param-Force", "true"),
		`{"region":""}`:                                                                     headers("Mcp-Param-Region", ""),
		`{"region":"世界"}`:                                                                   headers("Mcp-Param-Region", "=?base64?5LiW55WM?="),
		`{"r\u0065gion":"a\u0062\nX-Injected: 1"}`:                                          headers("Mcp-Param-Region", EncodeHeader("ab\nX-Injected: 1")),
		`{"region":"=?base64?literal?="}`:                                                   headers("Mcp-Param-Region", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
		`{"region":"42"}`:                                                                   headers("Mcp-Param-Region", "42"),
		`{"count":42.0}`:                                                                    headers("Mcp-Param-Count", "42"),
		`{"count":-0}`:                                                                      headers("Mcp-Param-Count", "0"),
		`{"count":-7}`:                                                                      headers("Mcp-Param-Count", "-7"),
		`{"count":9007199254740991}`:                                                        headers("Mcp-Param-Count", "9007199254740991"),
		`{"count":-9007199254740991}`:                                                       headers("Mcp-Param-Count", "-9007199254740991"),
		` { "count" : 1e2 } `:                                                               headers("Mcp-Param-Count", "100"),
	} {
		h := http.Header{"Mcp-Param-Other": {"kept"}, "Mcp-Param-Region": {"stale"}}
		err := SetParams(h, paramsOfEachType, []byte(arguments))
		if h.Get("Mcp-Param-Other") != "kept" {
			t.Errorf("%s: another header was touched", arguments)
		}
		h.Del("Mcp-Param-Other")
		if err != nil || !reflect.DeepEqual(h, want) {
			t.Errorf("%s: got %v, %v, want %v", arguments, h, err, want)
		}
		if err := CheckParams(h, paramsOfEachType, []byte(arguments)); err != nil {
			t.Errorf("%s: what was set is refused: %v", arguments, err)
		}
	}
}

func TestSetParamsRefuses(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"region":42}`:                            `"region": must be a string`,
		`{"region":true}`:                          `"region"`,
		`{"region":["a"]}`:                         `"region"`,
		`{"region":{}}`:                            `"region"`,
		`{"where":{"tenant":1}}`:                   `"where.tenant"`,
		`{"force":"true"}`:                         `"force": must be a boolean`,
		`{"force":0}`:                              `"force"`,
		`{"count":"42"}`:                           `"count": must be an integer`,
		`{"count":true}`:                           `"count"`,
		`{"count":[]}`:                             `"count"`,
		`{"count":42.5}`:                           `"count"`,
		`{"count":9007199254740992}`:               `"count"`,
		`{"count":-9007199254740992}`:              `"count"`,
		`{"count":9007199254740993}`:               `"count"`,
		`{"count":9007199254740991.5}`:             `"count"`,
		`{"count":1e300}`:                          `"count"`,
		`{"region":"a","region":"b"}`:              `duplicate`,
		`{"where":{"tenant":"a","tenant":"b"}}`:    `duplicate`,
		`{"where":{"tenant":"a"},"where":{}}`:      `duplicate`,
		`{"region":"a"`:                            `not valid JSON`,
		"{\"region\":\"\xff\"}":                    `not valid JSON`,
		`{"region":"\ud800"}`:                      `not valid JSON`,
		`{"else":{"a":1,"a":2},"region":"harmed"}`: `duplicate`,
	} {
		if err := SetParams(http.Header{}, paramsOfEachType, []byte(arguments)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one that says %s", arguments, err, want)
		}
	}
}

// A schema may annotate a string and a property inside it. An object is then
// no absent string.
func TestParamInsideAParam(t *testing.T) {
	params := []ParamHeader{{"Outer", []string{"a"}, "string"}, {"Inner", []string{"a", "b"}, "string"}}
	arguments := []byte(`{"a":{"b":"x"}}`)
	if err := SetParams(http.Header{}, params, arguments); err == nil || !strings.Contains(err.Error(), `"a": must be`) {
		t.Errorf("set: got %v", err)
	}
	checkRefusal(t, "check", CheckParams(headers("Mcp-Param-Inner", "x"), params, arguments), "Mcp-Param-Outer header is missing")
}

func TestCheckParams(t *testing.T) {
	const region, count, force, tenant = "Mcp-Param-Region", "Mcp-Param-Count", "Mcp-Param-Force", "Mcp-Param-Tenant"
	for _, tc := range []struct {
		what      string
		header    http.Header
		arguments string
		want      string
	}{
		{"nothing", headers(), `{}`, ""},
		{"no arguments", headers(), ``, ""},
		{"null", headers(), `{"region":null,"where":null}`, ""},
		{"headers in any case", headers("MCP-PARAM-REGION", "a", "mcp-param-tenant", "b"), `{"region":"a","where":{"tenant":"b"}}`, ""},
		{"headers that nothing names", headers("Mcp-Param-Else", "=?base64?!?=", "Mcp-Param-Else", "b"), `{"else":1}`, ""},
		{"spaces around", headers(region, " a\t"), `{"region":"a"}`, ""},
		{"an empty string", headers(region, ""), `{"region":""}`, ""},
		{"needless base64", headers(region, "=?base64?YQ==?="), `{"region":"a"}`, ""},
		{"a number in base64", headers(count, "=?base64?NDI=?="), `{"count":42}`, ""},
		{"a fraction of zero", headers(count, "42.0"), `{"count":42}`, ""},
		{"the same in the body", headers(count, "42"), `{"count":42.0}`, ""},
		{"an exponent", headers(count, "100"), `{"count":1E+2}`, ""},
		{"minus zero", headers(count, "-0"), `{"count":0}`, ""},
		{"greatest integer", headers(count, "9007199254740991"), `{"count":9007199254740991}`, ""},
		{"another type than the schema says", headers(count, "42x", region, "7"), `{"count":"42x","region":7}`, ""},

		{"missing", headers(), `{"region":"a"}`, "Mcp-Param-Region header is missing"},
		{"missing for an empty string", headers(), `{"region":""}`, "is missing"},
		{"missing for false", headers(), `{"force":false}`, "is missing"},
		{"missing, nested", headers(), `{"where":{"tenant":"a"}}`, `"where.tenant"`},
		{"for null", headers(region, "null"), `{"region":null}`, "absent or null"},
		{"for null, empty", headers(region, ""), `{"region":null}`, "absent or null"},
		{"for nothing", headers(region, "a"), `{}`, "absent or null"},
		{"for no arguments", headers(region, "a"), ``, "absent or null"},
		{"for arguments that are no object", headers(region, "a"), `["a"]`, "absent or null"},
		{"for an argument elsewhere", headers(tenant, "a"), `{"tenant":"a"}`, "absent or null"},
		{"another text", headers(region, "b"), `{"region":"a"}`, "does not say the same"},
		{"text in other case", headers(region, "A"), `{"region":"a"}`, "does not say the same"},
		{"text, compared as text", headers(region, "42.0"), `{"region":"42"}`, "does not say the same"},
		{"another boolean", headers(force, "false"), `{"force":true}`, "does not say the same"},
		{"a boolean in other case", headers(force, "True"), `{"force":true}`, "does not say the same"},
		{"another integer", headers(count, "43"), `{"count":42}`, "does not say the same"},
		{"equal only as floats", headers(count, "9007199254740992"), `{"count":9007199254740993}`, "does not say the same"},
		{"rounding to the limit", headers(count, "9007199254740991"), `{"count":9007199254740991.4}`, "does not say the same"},
		{"over the limit, equal", headers(count, "9007199254740993"), `{"count":9007199254740993}`, "does not say the same"},
		{"a fraction, equal", headers(count, "42.5"), `{"count":42.5}`, "does not say the same"},
		{"a fraction near it", headers(count, "42.00000000000000000001"), `{"count":42}`, "does not say the same"},
		{"hexadecimal", headers(count, "0x2a"), `{"count":42}`, "does not say the same"},
		{"a plus", headers(count, "+42"), `{"count":42}`, "does not say the same"},
		{"a zero before it", headers(count, "042"), `{"count":42}`, "does not say the same"},
		{"an empty number", headers(count, ""), `{"count":0}`, "does not say the same"},
		{"two numbers", headers(count, "42, 42"), `{"count":42}`, "does not say the same"},
		{"encoded spaces", headers(count, EncodeHeader(" 42 ")), `{"count":42}`, "does not say the same"},
		{"an array", headers(region, `["a"]`), `{"region":["a"]}`, "does not say the same"},
		{"an object", headers(region, `{}`), `{"region":{}}`, "does not say the same"},
		{"several lines", headers(region, "a", region, "b"), `{"region":"a"}`, "occurs 2 times"},
		{"several equal lines", headers(region, "a", region, "a"), `{"region":"a"}`, "occurs 2 times"},
		{"several lines for nothing", headers(region, "a", region, "b"), `{}`, "occurs 2 times"},
		{"bad base64", headers(region, "=?base64?YQ?="), `{"region":"a"}`, "base64"},
		{"raw UTF-8", headers(region, "世界"), `{"region":"世界"}`, "not allowed"},
		{"the last one is wrong", headers(region, "a", tenant, "b"), `{"region":"a","where":{"tenant":"c"}}`, "Mcp-Param-Tenant"},
	} {
		checkRefusal(t, tc.what, CheckParams(tc.header, paramsOfEachType, []byte(tc.arguments)), tc.want)
	}
}

func TestCheckParamsOfArgumentsThatAreNotJSON(t *testing.T) {
	for _, arguments := range []string{`{"region":`, `{"region":"a","region":"b"}`} {
		err := CheckParams(headers("Mcp-Param-Region", "a"), paramsOfEachType, []byte(arguments))
		if !errors.Is(err, ErrParse) && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", arguments, err)
		}
	}
}

// A refusal may be logged; the arguments may be secret.
func TestCheckParamsDoesNotTellArguments(t *testing.T) {
	err := CheckParams(headers("Mcp-Param-Region", "hush1"), paramsOfEachType, []byte(`{"region":"hush2"}`))
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Fatal(err)
	}
}

func TestSafeInteger(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "0.000": 0, "0e5": 0, "0.0e-99999999999999999999": 0, "-0E99999999999999999999": 0,
		"42": 42, "42.0": 42, "4.2e1": 42, "420e-1": 42, "0.42e2": 42, "4200000000000000000000e-20": 42,
		"1e15": 1e15, "9.007199254740991e15": maxSafeInteger, "-9007199254740991.000": -maxSafeInteger,
		"0.0000000000000000000001e22": 1,
	} {
		if got, err := safeInteger([]byte(text)); got != want || err != nil {
			t.Errorf("%s: got %d, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", " ", "-", "+1", "01", "1.", ".5", "1e", "1e+", "0x1", "1_0", "NaN", "Infinity", " 1", "1 ", "1,1", "1 1", "٤", "4\x00",
		"1.5", "0.1", "1e-1", "42.00000000000000000000000001", "1e-99999999999999999999",
		"9007199254740992", "9007199254740993", "-9007199254740992", "1e16", "9.007199254740993e15", "90071992547409910",
		"1e999999999", "1e2147483648", "1e99999999999999999999", "123456789012345678901234567890",
	} {
		if got, err := safeInteger([]byte(text)); err == nil {
			t.Errorf("%q: taken as %d", text, got)
		}
	}
}

func BenchmarkParamHeaders(b *testing.B) {
	plain := []byte(`{"type":"object","properties":{` + strings.Repeat(`"name":{"type":"string","description":"some text"},`, 20) + `"z":{}}}`)
	annotated := []byte(`{"type":"object","properties":{"name":{"type":"string","description":"some text"},"z":{"type":"string","x-mcp-header":"Z"}}}`)
	for name, schema := range map[string][]byte{"none": plain, "one": annotated} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParamHeaders(schema); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCheckParams(b *testing.B) {
	for _, size := range []int{10, 100 << 10} {
		arguments := []byte(`{"query":"` + strings.Repeat("x", size) + `","region":"us-west1","count":42,"where":{"tenant":"acme"}}`)
		h := http.Header{}
		if err := SetParams(h, paramsOfEachType, arguments); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := CheckParams(h, paramsOfEachType, arguments); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("no annotations", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := CheckParams(nil, nil, []byte(`{}`)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
