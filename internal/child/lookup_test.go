package child

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/crib"
)

func TestBatchFilesTakeNoArgumentsThatCmdWouldInterpret(t *testing.T) {
	for _, tc := range []struct {
		path string
		args []string
		ok   bool
	}{
		{`C:\npx.cmd`, []string{"-y", "@scope/pkg@1.2.3", "--dir=C:\\My Files", "a b"}, true},
		{`C:\npx.CMD`, []string{"-y", `{"a":1}`}, false},
		{`C:\npx.cmd`, []string{"a & calc"}, false},
		{`C:\npx.bat`, []string{"%PATH%"}, false},
		{`C:\node.exe`, []string{`{"a":"%PATH%"}`}, true},
	} {
		err := checkBatch(tc.path, tc.args)
		if (err == nil) != tc.ok || err != nil && crib.CodeOf(err) != crib.Invalid {
			t.Errorf("%s %q: %v", tc.path, tc.args, err)
		}
	}
}
