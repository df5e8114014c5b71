package landfall_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// secretWords end the names of what must not be guessed byte by byte.
func secretWords() []string {
	return []string{"secret", "signature", "token", "password", "mac", "nonce", "csrf"}
}

// harmless are the comparisons of what only has such a name, and why.
func harmless() map[string]string {
	return map[string]string{
		"accept/forgehook.go: l.state.Secret == l.digest()":               "both are digests of secrets of ours",
		"api/tokens.go: t.Name == in.Token":                               "it is the name of a token",
		"pipeline/buildsecret.go: pullSecret() == name":                   "it is the name of a secret",
		"runtime/gateway/access/guard.go: access == landfall.AccessToken": "it is a kind of access",
	}
}

// S5: no secret is compared byte by byte: how long that takes would tell how much of a guess is right.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range sources(t) {
		file := f.path
		if f.isTest() || strings.Contains(file, "test/") || strings.HasPrefix(file, "bench/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			said := comparison(n)
			if said == "" {
				return true
			}
			at := file + ": " + said
			seen[at] = true
			if harmless()[at] == "" {
				t.Errorf("%s compares a secret; use hmac.Equal, or say in harmless why not", at)
			}
			return true
		})
	}
	for at := range harmless() {
		if !seen[at] {
			t.Errorf("%s is in harmless, and nowhere else", at)
		}
	}
}

// comparison returns a comparison of a secret in which every byte that is right takes time; empty for any other node.
func comparison(n ast.Node) string {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if (n.Op == token.EQL || n.Op == token.NEQ) && !fixed(n.X) && !fixed(n.Y) && (isSecret(n.X) || isSecret(n.Y)) {
			return textOf(n.X) + " " + n.Op.String() + " " + textOf(n.Y)
		}
	case *ast.CallExpr:
		switch name := textOf(n.Fun); name {
		case "bytes.Equal", "bytes.Compare", "strings.EqualFold", "strings.Compare", "cmp.Compare", "slices.Equal",
			"reflect.DeepEqual":
			for _, arg := range n.Args {
				if isSecret(arg) {
					return name + "(" + textOf(arg) + ")"
				}
			}
		}
	}
	return ""
}

// fixed reports whether an expression is nil or a value that stands in the program.
func fixed(e ast.Expr) bool {
	_, literal := e.(*ast.BasicLit)
	return literal || textOf(e) == "nil"
}

func isSecret(e ast.Expr) bool {
	name := textOf(e)
	name = strings.ToLower(name[strings.LastIndex(name, ".")+1:])
	name = strings.TrimSuffix(name, "()")
	for _, word := range secretWords() {
		if strings.HasSuffix(name, word) {
			return true
		}
	}
	return false
}

// textOf returns the names of which an expression consists; empty for those that have no name.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return textOf(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return textOf(e.Fun) + "()"
	case *ast.ParenExpr:
		return textOf(e.X)
	case *ast.StarExpr:
		return textOf(e.X)
	}
	return ""
}
