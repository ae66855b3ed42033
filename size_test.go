package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// Sizes above which code is hard to hold in one head. They are a signal, not
// a law: what is better whole stands in oversize with its reason.
const (
	maxPackageLines  = 3000
	maxFileLines     = 600
	maxFunctionLines = 80
	maxFields        = 15 // of a struct with methods
)

// oversize lists what may be over a limit, and why. A key is what the test
// prints before the colon.
var oversize = map[string]string{
	"package upstream":   "the legs to servers, a file each, and how they are found and kept; what lets requests in stands apart in upstream/gate",
	"package cli":        "the commands, a file each; what they share stands apart below it",
	"package clients":    "nine clients' files, each in a few lines of one table; what edits text stands apart in clients/edit",
	"package mcptest":    "the peers that tests meet, one file a kind; no program contains it",
	"struct wire.Params": "one flat row of offsets, filled in one pass over the message; its only method finds a field by its JSON name",
}

func TestSizes(t *testing.T) {
	found := map[string]bool{}
	over := func(what string, size, limit int, unit string) {
		if size <= limit {
			return
		}
		found[what] = true
		if reason, ok := oversize[what]; ok {
			t.Logf("%s: %d %s, over %d: %s", what, size, unit, limit, reason)
			return
		}
		t.Errorf("%s: %d %s, over %d; split it, or say in oversize why it is better whole", what, size, unit, limit)
	}

	packages := map[string]*sizedPackage{}
	for _, path := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		pkg := packageOf(path)
		if packages[pkg] == nil {
			packages[pkg] = &sizedPackage{fields: map[string]int{}, methods: map[string]bool{}}
		}
		packages[pkg].add(t, pkg, path, over)
	}
	for name, p := range packages {
		over("package "+name, p.lines, maxPackageLines, "lines")
		for typ, fields := range p.fields {
			if p.methods[typ] {
				over("struct "+name+"."+typ, fields, maxFields, "fields")
			}
		}
	}
	for what := range oversize {
		if !found[what] {
			t.Errorf("%s is no longer over a limit; take it out of oversize", what)
		}
	}
}

// sizedPackage is what is known of a package when all its files were read.
type sizedPackage struct {
	lines   int
	fields  map[string]int  // of each struct type
	methods map[string]bool // types that have one
}

func (p *sizedPackage) add(t *testing.T, pkg, path string, over func(what string, size, limit int, unit string)) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(file) {
		return
	}
	lines := fset.File(file.FileStart).LineCount() // nothing after the last newline is a line
	p.lines += lines
	over("file "+path, lines, maxFileLines, "lines")
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if receiver := receiverType(d); receiver != "" {
				p.methods[receiver] = true
				name = receiver + "." + name
			}
			length := fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
			over(fmt.Sprintf("func %s.%s", pkg, name), length, maxFunctionLines, "lines")
		case *ast.GenDecl:
			p.addTypes(d)
		}
	}
}

func (p *sizedPackage) addTypes(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		typ, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if s, ok := typ.Type.(*ast.StructType); ok {
			p.fields[typ.Name.Name] = s.Fields.NumFields()
		}
	}
}

// receiverType returns the name of the type that d is a method of, "" if it
// is none.
func receiverType(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
