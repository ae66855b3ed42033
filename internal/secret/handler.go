package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
)

// NewHandler returns a slog.Handler that passes records on to next with every
// secret that r knows replaced. Attributes are redacted when a record is
// written, so that a secret which is learnt after Logger.With is covered.
func NewHandler(next slog.Handler, r *Redactor) slog.Handler {
	return &handler{next: next, redactor: r}
}

type handler struct {
	next     slog.Handler
	redactor *Redactor
	scopes   []scope // from With and WithGroup, outermost first
}

// scope is a group that was opened or attributes that were added.
type scope struct {
	group string // "" for attributes
	attrs []slog.Attr
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(scope{attrs: attrs})
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(scope{group: name})
}

func (h *handler) with(s scope) slog.Handler {
	return &handler{next: h.next, redactor: h.redactor, scopes: append(slices.Clip(h.scopes), s)}
}

func (h *handler) Handle(ctx context.Context, rec slog.Record) error {
	var attrs []slog.Attr
	rec.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, h.attr(a))
		return true
	})
	for _, s := range slices.Backward(h.scopes) {
		if s.group != "" {
			attrs = []slog.Attr{{Key: s.group, Value: slog.GroupValue(attrs...)}}
			continue
		}
		attrs = append(h.attrs(s.attrs), attrs...)
	}
	out := slog.NewRecord(rec.Time, rec.Level, h.redactor.RedactString(rec.Message), rec.PC)
	out.AddAttrs(attrs...)
	return h.next.Handle(ctx, out)
}

func (h *handler) attrs(in []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, 0, len(in))
	for _, a := range in {
		out = append(out, h.attr(a))
	}
	return out
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	return slog.Attr{Key: h.redactor.RedactString(a.Key), Value: h.value(a.Value.Resolve())}
}

func (h *handler) value(v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(h.redactor.RedactString(v.String()))
	case slog.KindGroup:
		return slog.GroupValue(h.attrs(v.Group())...)
	case slog.KindAny:
		return h.any(v.Any())
	}
	return v
}

// any keeps x when no way in which a handler could write it shows a secret.
func (h *handler) any(x any) slog.Value {
	if err, ok := x.(error); ok {
		return slog.StringValue(h.redactor.RedactString(fmt.Sprint(err))) // Sprint survives a nil pointer
	}
	if raw, ok := x.([]byte); ok {
		return slog.StringValue(h.redactor.RedactString(string(raw)))
	}
	text := fmt.Sprintf("%+v", x)
	if safe := h.redactor.RedactString(text); safe != text {
		return slog.StringValue(safe)
	}
	encoded, err := json.Marshal(x)
	if err != nil {
		return slog.StringValue(text)
	}
	if safe := h.redactor.Redact(encoded); len(safe) != len(encoded) || string(safe) != string(encoded) {
		return slog.StringValue(string(safe))
	}
	return slog.AnyValue(x)
}
