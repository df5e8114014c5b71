package host

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"sync"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
)

// maxSecrets is how many bytes the secrets of a function may have together: a system gives a new process no more.
const maxSecrets = 1 << 20

// reveal gives a function its secrets, and takes them out of whatever it says. Conflict when there is one that it
// cannot have.
func reveal(keeper *secret.Keeper, f *landfall.Function, to *runner.Function) error {
	values := map[string]secret.Text{}
	total := 0
	for _, s := range f.Secrets {
		why := ""
		switch {
		case s.Number == 0:
			why = "which its release does not have: push again"
		case s.Sealed == nil:
			why = fmt.Sprintf("whose value in its release (no. %d) was revoked or deleted", s.Number)
		case keeper == nil:
			why = "and this process has no key for secrets (LANDFALL_SECRET_KEY)"
		}
		if why != "" {
			return landfall.Errorf("functions.reveal", landfall.Conflict,
				"the function %s cannot be run: it needs the secret %s, %s", f.Name, s.Name, why)
		}
		value, err := keeper.Open(secret.Owner{App: f.App, Name: s.Name}, s.Sealed)
		if err != nil {
			return err
		}
		values[s.Name] = value
		to.Env[secret.Variable(s.Name)] = value.Reveal()
		if total += len(value); total > maxSecrets {
			return landfall.Errorf("functions.reveal", landfall.Conflict,
				"the function %s cannot be run: its secrets have more than %d bytes together", f.Name, maxSecrets)
		}
	}
	to.Hide = secret.NewRedactor(values)
	if to.Files = filesOf(f, values); len(to.Files) > spec.MaxFiles {
		return landfall.Errorf("functions.reveal", landfall.Conflict,
			"the function %s cannot be run: its secrets and config maps have %d keys, each a file, and may have %d", f.Name,
			len(to.Files), spec.MaxFiles)
	}
	return nil
}

// filesOf returns what a function finds as files: its secrets, and the config maps that it names, each by its keys.
func filesOf(f *landfall.Function, secrets map[string]secret.Text) map[string]string {
	files := map[string]string{}
	for _, folder := range f.Folders {
		value, found := secrets[path.Base(folder)]
		if strings.HasPrefix(folder, spec.ConfigsFolder+"/") {
			var text string
			text, found = f.Config[path.Base(folder)]
			value = secret.Text(text)
		}
		if !found { // a version of an earlier release may name a config map that is none
			continue
		}
		for key, part := range secret.Keys(value) {
			files[path.Join(folder, key)] = part.Reveal()
		}
	}
	return files
}

// Redactors take the secrets of the functions that run here out of texts. The zero value knows of none. Its methods may
// be called at the same time.
type Redactors struct {
	all sync.Map // the function's ID to its *secret.Redactor
}

// Redact returns a text without the secrets of a function. A function that has not run here said nothing: its texts
// stay as they are.
func (r *Redactors) Redact(f *landfall.Function, text string) string {
	known, _ := r.all.Load(f.ID)
	hide, _ := known.(*secret.Redactor) // nil leaves a text as it is
	return hide.String(text)
}

// set sets the redactor of a function; nil: it has none any more.
func (r *Redactors) set(id string, hide *secret.Redactor) {
	if hide == nil {
		r.all.Delete(id)
		return
	}
	r.all.Store(id, hide)
}

// Redact takes the secrets of a function that runs elsewhere out of a text, which is JSON or not. Where the key does
// not open them, it returns nothing of the text.
func Redact(key *secret.Keeper, f *landfall.Function, text string) string {
	if len(f.Secrets) == 0 {
		return text
	}
	function := runner.Function{Env: map[string]string{}}
	if err := reveal(key, f, &function); err != nil { // what it knew is not known here
		if json.Valid([]byte(text)) {
			return "null"
		}
		return landfall.MessageOf(err)
	}
	return function.Hide.String(text)
}
