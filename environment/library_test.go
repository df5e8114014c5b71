package environment_test

import (
	"os"
	"path/filepath"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
)

// A function needs FastAPI when it cannot be loaded without, and its package does not bring it.
func TestNeedsFastAPI(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		language, entry, source, brings string
		needs                           bool
	}{
		{"python-fastapi", "f.main", "from fastapi import Request\nasync def main(request: Request):\n    return 1", "",
			true},
		{"python-fastapi", "f.main", "async def main(request):\n    return 1", "", true},
		{"python-fastapi", "f.main", "def main(request: object):\n    return 1", "", true},
		{"python-fastapi", "", "import fastapi\napp = fastapi.FastAPI()", "", true},
		{"python", "f.app", "from fastapi import FastAPI\napp = FastAPI()", "", true},
		{"python", "f.app", "from fastapi import FastAPI\napp = FastAPI()", "fastapi/__init__.py", false},
		{"python", "f.app", "from fastapi import FastAPI\napp = FastAPI()", "vendor/fastapi/__init__.py", false},
		{"python-fastapi", "f.app", "async def app(scope, receive, send):\n    pass", "", false},
		{"python-fastapi", "f.app", "\"\"\"\nimport fastapi\n\"\"\"\nasync def app(scope, receive, send):\n    pass",
			"", false},
		{"python", "f.main", "def main(request):\n    return 1", "", false},
		{"python", "f.main", "try:\n    import fastapi\nexcept ImportError:\n    fastapi = None\ndef main():\n    return 1",
			"", false}, {"python", "f.main", "import fastapi_like\ndef main():\n    return 1", "", false},
		{"node", "f", "import fastapi", "", false},
	} {
		env, err := environment.Of(landfall.Environment{Name: test.language})
		if err != nil {
			t.Fatal(err)
		}
		if got := env.NeedsFastAPI(map[string]bool{"f.py": false, test.brings: false}, []byte(test.source),
			test.entry); got != test.needs {
			t.Errorf("%s, %s: got %t of\n%s", test.language, test.entry, got, test.source)
		}
	}
}

// A library is found in the folders of the system's Python.
func TestInstalled(t *testing.T) {
	t.Parallel()
	for folder, want := range map[string]bool{
		"lib/python3/dist-packages": true, "local/lib/python3.11/dist-packages": true, "lib/python3.12/site-packages": true,
		"lib/python2/dist-packages": false,
	} {
		usr := t.TempDir()
		if err := os.MkdirAll(filepath.Join(usr, folder, "fastapi"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := environment.Installed(usr, "fastapi"); got != want {
			t.Errorf("%s: got %t", folder, got)
		}
		if environment.Installed(usr, "other") {
			t.Errorf("%s: another library was found", folder)
		}
	}
}
