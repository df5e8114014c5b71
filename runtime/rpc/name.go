package rpc

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/invoke"
)

// The headers of a call.
const (
	functionHeader  = "Landfall-Function"  // a Name
	resourcesHeader = "Landfall-Resources" // of the trigger and the function
	refusedHeader   = "Landfall-Refused"   // of an answer: why the function did not begin
	streamHeader    = "Landfall-Stream"    // the answer may come while it is made
	bodyHeader      = "Landfall-Body"      // the data of the event follows it, in frames
)

// Name says which function a call is for.
type Name struct {
	Reference landfall.Reference
	Group     landfall.UID // the group version whose configuration it has; empty: that which the registry finds
	ID        string       // of the function as the caller knows it; empty: it knows none
}

// nameOf returns the name of a function.
func nameOf(f *landfall.Function) Name {
	return Name{landfall.Reference{Namespace: f.Namespace, Name: f.Name, Selector: string(f.Version)}, f.Group, f.ID}
}

// The parameters of a name.
const (
	groupParameter = "group"
	idParameter    = "id"
)

// String returns the name as a URL reference: /functions/NAMESPACE/NAME:VERSION?group=UID&id=ID.
func (n Name) String() string {
	namespace := cmp.Or(n.Reference.Namespace, landfall.DefaultNamespace)
	u := url.URL{Path: invoke.Path + namespace + "/" + n.Reference.Name + ":" + n.Reference.Selector}
	query := url.Values{}
	if n.Group != "" {
		query.Set(groupParameter, string(n.Group))
	}
	if n.ID != "" {
		query.Set(idParameter, n.ID)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// parseName reads the URL of a function: …/functions/NAMESPACE/NAME:VERSION, or …/NAMESPACE/NAME:VERSION, with the
// parameters group and id or without. Its host does not matter: who runs functions asks its own registry. Invalid when
// it is none.
func parseName(text string) (Name, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Name{}, notNamed(text)
	}
	path, ok := strings.CutPrefix(u.Path, invoke.Path)
	if !ok {
		path = strings.Trim(u.Path, "/")
	}
	ref, err := landfall.ParseReference(path)
	if err != nil {
		return Name{}, notNamed(text)
	}
	query := u.Query()
	return Name{ref, landfall.UID(query.Get(groupParameter)), query.Get(idParameter)}, nil
}

func notNamed(text string) error {
	const most = 200
	return landfall.Errorf("rpc.parseName", landfall.Invalid,
		"function: it is %q, and must be the URL of a function: …%sNAMESPACE/NAME:VERSION",
		landfall.Printable(text[:min(len(text), most)]), invoke.Path)
}

// named returns the function that a request names: by the header, else by the event.
func named(h http.Header, e event.Event) (Name, error) {
	return parseName(cmp.Or(h.Get(functionHeader), event.FunctionOf(e)))
}

// The parameters of resourcesHeader.
const (
	memoryParameter      = "memory"
	cpuParameter         = "cpu"
	diskParameter        = "disk"
	timeoutParameter     = "timeout"
	idleParameter        = "idle"
	concurrencyParameter = "concurrency"
	warmParameter        = "warm"
)

// resourcesText returns resources as parameters of a URL; zero fields are left out.
func resourcesText(r landfall.Resources) string {
	const usual = 96
	text := make([]byte, 0, usual)
	for _, field := range [...]struct {
		name  string
		value int64
	}{
		{memoryParameter, r.Memory}, {cpuParameter, int64(r.MilliCPU)}, {diskParameter, r.Disk},
		{timeoutParameter, int64(r.Timeout)}, {idleParameter, int64(r.IdleTimeout)},
		{concurrencyParameter, int64(r.Concurrency)}, {warmParameter, int64(r.KeepWarm)},
	} {
		if field.value == 0 {
			continue
		}
		if len(text) > 0 {
			text = append(text, '&')
		}
		text = strconv.AppendInt(append(append(text, field.name...), '='), field.value, 10)
	}
	return string(text)
}

// parseResources reads resourcesText. Invalid when it is none.
func parseResources(text string) (landfall.Resources, error) {
	var r landfall.Resources
	for field := range strings.SplitSeq(text, "&") {
		if field == "" {
			continue
		}
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || !setResource(&r, name, n) {
			return landfall.Resources{}, &landfall.Error{Op: "rpc.parseResources", Kind: landfall.Invalid,
				Message: resourcesHeader + ": " + strconv.Quote(field) + " says nothing about resources"}
		}
	}
	return r, nil
}

// setResource sets a field of resources, and reports whether there is one of that name.
func setResource(r *landfall.Resources, name string, n int64) bool {
	switch name {
	case memoryParameter:
		r.Memory = n
	case cpuParameter:
		r.MilliCPU = int(n)
	case diskParameter:
		r.Disk = n
	case timeoutParameter:
		r.Timeout = time.Duration(n)
	case idleParameter:
		r.IdleTimeout = time.Duration(n)
	case concurrencyParameter:
		r.Concurrency = int(n)
	case warmParameter:
		r.KeepWarm = int(n)
	default:
		return false
	}
	return true
}
