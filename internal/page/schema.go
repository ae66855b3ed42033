package page

import (
	"encoding/json"
	"fmt"
	"strings"
)

// schemaDialect is the JSON Schema version of the schemas.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// TextSchema is any text.
func TextSchema() Schema { return Schema{"type": "string"} }

// ScalarSchema is text, a number, or true or false.
func ScalarSchema() Schema { return Schema{"type": []string{"string", "number", "boolean"}} }

// BoolSchema is true or false.
func BoolSchema() Schema { return Schema{"type": "boolean"} }

// WordSchema is one of words.
func WordSchema(words ...string) Schema { return Schema{"enum": words} }

// ListSchema is a list of items.
func ListSchema(item Schema) Schema { return Schema{"type": "array", "items": item} }

// MapSchema is a mapping of any names to values.
func MapSchema(value Schema) Schema { return Schema{"type": "object", "additionalProperties": value} }

// AnySchema is what one of s allows.
func AnySchema(s ...Schema) Schema { return Schema{"anyOf": s} }

// valueSchema is a value in the notation of pages.
func valueSchema() Schema {
	return AnySchema(
		Schema{"type": "string", "pattern": `^[A-Z][A-Z0-9_]*$|\$\{.*:.*\}`},
		Schema{"type": "object", "properties": Schema{"value": ScalarSchema()}, "required": []string{"value"}, "additionalProperties": false},
	)
}

func transportSchema() Schema {
	s := ObjectSchema(transportFields())
	s["oneOf"] = []Schema{{"required": []string{"http"}}, {"required": []string{"stdio"}}, {"required": []string{"command"}}}
	return s
}

// ObjectSchema is the schema of a mapping with the fields of table and no
// others. Fields that are refused are left out.
func ObjectSchema[T any](table []Field[T]) Schema {
	props := Schema{}
	for _, f := range table {
		if f.Schema == nil {
			continue
		}
		s := Schema{}
		for k, v := range f.Schema {
			s[k] = v
		}
		s["description"] = strings.ReplaceAll(f.Doc, "`", "")
		props[f.Name] = s
	}
	return Schema{"type": "object", "properties": props, "additionalProperties": false}
}

// Document writes s as a whole schema document.
func (s Schema) Document(title string) []byte {
	s["$schema"] = schemaDialect
	s["title"] = title
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("a schema is made of text, lists and maps alone: %v", err))
	}
	return append(b, '\n')
}

// JSONSchema returns the JSON Schema of the front matter of a server's page.
func JSONSchema() []byte {
	block := ObjectSchema(BlockFields())
	block["required"] = []string{"transport"}
	return Schema{
		"type": "object",
		"properties": Schema{
			"mcp":      block,
			"metadata": Schema{"type": "object", "properties": Schema{"mcp": block}},
		},
	}.Document("Front matter of a Toolcrib server page")
}

// Table renders the fields of table as a Markdown table. Fields that are
// refused are left out.
func Table[T any](table []Field[T]) string {
	var b strings.Builder
	b.WriteString("| key | type | default | what it does |\n| --- | --- | --- | --- |\n")
	for _, f := range table {
		if f.Doc == "" {
			continue
		}
		def := f.Default
		if def == "" {
			def = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, def, f.Doc)
	}
	return b.String()
}

// Reference describes the front matter of a server's page in Markdown.
func Reference() string {
	return "Keys of `mcp:` in `mcp/<name>.md`, and of an entry of `TOOLCRIB_MCP_SERVERS`:\n\n" + Table(BlockFields()) +
		"\nKeys of `transport`:\n\n" + Table(transportFields()) + `
Values of ` + "`headers` and `env`" + `:

| written | means |
| --- | --- |
| ` + "`GH_TOKEN`" + ` | the secret of that name, looked up in all stores in order |
| ` + "`Bearer ${ env:GH_TOKEN }`" + ` | text with a secret of one store in it; ` + "`secrets:`" + ` is all stores, ` + "`$$`" + ` is a dollar |
| ` + "`{ value: debug }`" + ` | text that is no secret; nothing is expanded in it |
`
}
