// Package githubtest is a GitHub for tests: a server that answers as GitHub does, checks every request against the API
// description that GitHub publishes, and fails when a test wants it.
package githubtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

const (
	// DescriptionVariable is the environment variable that names the file of GitHub's API description.
	DescriptionVariable = "LANDFALL_OPENAPI_GITHUB"

	// descriptionFile is the default of that file, below the folder of go.mod.
	descriptionFile = "build/openapi/api.github.com.json"
)

// call is one valid request.
type call struct {
	*openapi3filter.RequestValidationInput

	repository string // owner/name; "/" when the path names none
}

// reply is the answer to a call.
type reply struct {
	status int
	header map[string]string
	body   []byte
}

// resources are the paths that Server answers, with what answers them; the rest of the description is not read. Each
// file of the package has its own.
func resources() map[string]func(*Server, call) reply {
	all := map[string]func(*Server, call) reply{}
	for _, some := range []map[string]func(*Server, call) reply{
		statusResources(),
		commentResources(),
		userResources(),
		permissionResources(),
		reactionResources(),
		labelResources(),
		hookResources(),
		deploymentResources(),
		appResources(),
		checkResources(),
		repositoryResources(),
		pullResources(),
		openPullResources(),
	} {
		maps.Copy(all, some)
	}
	return all
}

// Description is the part of GitHub's API description that Server answers. It can be shared by all tests.
type Description struct{ router routers.Router }

// Load reads GitHub's description from the file that LANDFALL_OPENAPI_GITHUB names, else from
// build/openapi/api.github.com.json in the repository. Without a file the error says how to get it. Reading takes a
// moment, so a test package loads it once.
func Load() (*Description, error) {
	file, err := descriptionPath()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("GitHub's API description is not at %s; type: make %s", file, descriptionFile)
	}
	if err != nil {
		return nil, err
	}
	trimmed, err := trim(text, slices.Sorted(maps.Keys(resources()))...)
	if err != nil {
		return nil, fmt.Errorf("trim %s: %w", file, err)
	}
	document, err := openapi3.NewLoader().LoadFromData(trimmed)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	router, err := legacy.NewRouter(document, openapi3.DisableExamplesValidation())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return &Description{router: router}, nil
}

// descriptionPath returns where the description is looked for.
func descriptionPath() (string, error) {
	if file := os.Getenv(DescriptionVariable); file != "" {
		return file, nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return filepath.Join(folder, filepath.FromSlash(descriptionFile)), nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", fmt.Errorf("there is no go.mod above the tests; set %s", DescriptionVariable)
		}
		folder = parent
	}
}

// reference matches a reference to another part of a description.
var reference = regexp.MustCompile(`"\$ref":\s*"#/components/([a-z]+)/([^"]+)"`)

// trim returns the description with only these paths and what they need, and without servers, so it applies to any
// address.
func trim(text []byte, paths ...string) ([]byte, error) {
	type components map[string]map[string]json.RawMessage
	type document struct {
		OpenAPI    json.RawMessage            `json:"openapi"`
		Info       json.RawMessage            `json:"info"`
		Paths      map[string]json.RawMessage `json:"paths"`
		Components components                 `json:"components"`
	}
	var all document
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	kept := document{all.OpenAPI, all.Info, map[string]json.RawMessage{}, components{}}
	var unread []json.RawMessage
	for _, path := range paths {
		part, ok := all.Paths[path]
		if !ok {
			return nil, fmt.Errorf("there is no path %s", path)
		}
		kept.Paths[path] = part
		unread = append(unread, part)
	}
	for len(unread) > 0 {
		part := unread[0]
		unread = unread[1:]
		for _, found := range reference.FindAllSubmatch(part, -1) {
			kind, name := string(found[1]), string(found[2])
			if kept.Components[kind] == nil {
				kept.Components[kind] = map[string]json.RawMessage{}
			}
			if _, seen := kept.Components[kind][name]; !seen {
				kept.Components[kind][name] = all.Components[kind][name]
				unread = append(unread, all.Components[kind][name])
			}
		}
	}
	return json.Marshal(kept)
}
