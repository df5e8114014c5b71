package spec

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
)

// read reads one document: first its kind, then what that kind has.
func (r *reader) read(d *document) {
	root := d.root()
	if root == nil {
		return
	}
	n := nodes{d, root}
	k, kindName, ok := d.kind(n)
	if !ok {
		r.incomplete = true
		return
	}
	if k.document.shape != object { // accepted and ignored
		return
	}
	c := &checker{document: d, fold: k.apiVersion == fissionVersion, left: r.limits.Depth}
	content, _ := c.value(root, k.document, "").(map[string]any)
	if k.read == nil {
		d.readArchive(n, content, !c.wrong)
		return
	}
	o, ok := d.object(n, kindName, content)
	if !ok || c.wrong {
		return
	}
	spec, _ := content["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	k.read(d, o, spec, n)
}

// kind returns the kind of the document at n.
func (d *document) kind(n nodes) (kind, string, bool) {
	values := map[string]string{}
	for _, name := range []string{"apiVersion", "kind"} {
		if value, _ := child(n.node, name); value != nil && value.Kind == yaml.ScalarNode {
			values[name] = value.Value
		}
	}
	version, kindName := values["apiVersion"], values["kind"]
	k, ok := d.kinds[kindName]
	switch {
	case kindName == "":
		d.problemf(n.pos(n.node), "kind is missing; %s", Suggest("", d.kinds))
	case version != "" && version != fissionVersion && version != ourVersion:
		d.problemf(n.at("apiVersion"), "unknown apiVersion %s; known: %s, %s", quote(version), fissionVersion, ourVersion)
	case !ok:
		d.problemf(n.at("kind"), "unknown kind %s; %s", quote(kindName), Suggest(kindName, d.kinds))
	case version == "" && kindName != archiveKind && kindName != deploymentKind:
		d.problemf(n.pos(n.node), "apiVersion is missing; %s is of %s", kindName, k.apiVersion)
	case version != "" && version != k.apiVersion:
		d.problemf(n.at("apiVersion"), "%s is of %s", kindName, k.apiVersion)
	default:
		return k, kindName, true
	}
	return kind{}, "", false
}

// objectName is a DNS subdomain name as Kubernetes wants it (RFC 1123).
var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

func isObjectName(s string) bool { return len(s) <= 253 && objectName.MatchString(s) }

// object reads and declares what all documents with metadata have.
func (d *document) object(n nodes, kindName string, content map[string]any) (Object, bool) {
	metadata, _ := content["metadata"].(map[string]any)
	o := Object{Pos: n.pos(n.node)}
	o.Name, _ = metadata["name"].(string)
	o.Namespace, _ = metadata["namespace"].(string)
	pos := n.at("metadata", "name")
	switch {
	case o.Name == "":
		d.problemf(pos, "%s has no metadata.name", kindName)
		return o, false
	case kindName != appKind && !isObjectName(o.Name):
		d.problemf(pos, "%s", noName(o.Name))
		return o, false
	}
	if o.Namespace != "" && o.Namespace != landfall.DefaultNamespace {
		d.warnf(n.at("metadata", "namespace"), "%s %s: namespace %s is refused by an apply unless it is the app's own",
			kindName, o.Name, quote(o.Namespace))
	}
	if kindName == aliasKind { // whose name is its function's own
		return o, true
	}
	if kindName != appKind {
		return o, d.declare(pos, kindName, o.Name)
	}
	if first, ok := d.names[name{kind: appKind}]; ok {
		d.problemf(o.Pos, "there is already an App at %s; an app has one", first)
		return o, false
	}
	d.names[name{kind: appKind}] = o.Pos
	return o, true
}

// finish makes a document's spec canonical and reads it into known, which has the fields that mean something here.
func (d *document) finish(o *Object, spec map[string]any, known any) bool {
	data, err := Canonical(spec)
	if err == nil && known != nil {
		err = json.Unmarshal(data, known)
	}
	if err != nil {
		d.problemf(o.Pos, "%s: the spec cannot be read: %v", o.Name, err)
		return false
	}
	o.Spec = data
	return true
}

// reference is a name and a namespace in a document.
type reference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// fillNamespace sets the namespace of a reference in a spec that has none.
func fillNamespace(spec map[string]any, at ...string) {
	for _, name := range at {
		inner, ok := spec[name].(map[string]any)
		if !ok {
			return
		}
		spec = inner
	}
	if namespace, _ := spec["namespace"].(string); namespace == "" {
		spec["namespace"] = landfall.DefaultNamespace
	}
}

func readFunction(d *document, o Object, spec map[string]any, n nodes) {
	fillNamespace(spec, "environment")
	fillNamespace(spec, "package", "packageref")
	for _, field := range []string{"secrets", "configmaps"} {
		listed, _ := spec[field].([]any)
		for _, item := range listed {
			if ref, ok := item.(map[string]any); ok {
				fillNamespace(map[string]any{"reference": ref}, "reference")
			}
		}
	}
	var known struct {
		resourceFields
		bodyFields
		retryFields

		Contract    *contractSpec `json:"contract"`
		Secrets     []reference   `json:"secrets"`
		ConfigMaps  []reference   `json:"configmaps"`
		Environment reference     `json:"environment"`
		Package     struct {
			Reference    reference `json:"packageref"`
			FunctionName string    `json:"functionName"`
		} `json:"package"`
	}
	if !d.finish(&o, spec, &known) {
		return
	}
	if known.Environment.Name == "" {
		d.problemf(n.at("spec", "environment"), "Function %s names no environment (spec.environment.name)", o.Name)
	}
	if known.Package.Reference.Name == "" {
		d.problemf(n.at("spec", "package", "packageref"),
			"Function %s names no package (spec.package.packageref.name)", o.Name)
	}
	d.checkLimits(spec, n)
	if r, field, err := known.resources(); err != nil {
		d.problemf(n.at("spec", field), "Function %s: %s", o.Name, landfall.MessageOf(err))
	} else if r.Concurrency == 0 && r.KeepWarm > landfall.DefaultConcurrency {
		d.problemf(n.at("spec", keepWarm),
			"Function %s: %s is %d, and concurrency, which is not given, allows %d processes; set it to at least %d", o.Name,
			keepWarm, r.KeepWarm, landfall.DefaultConcurrency, r.KeepWarm)
	} else {
		d.warm[o.Name] = r.KeepWarm
		d.checkSizes("Function "+o.Name, r, n)
	}
	if _, field, err := known.body(); err != nil {
		d.problemf(n.at("spec", field), "Function %s: %s", o.Name, landfall.MessageOf(err))
	}
	if err := known.check(); err != nil {
		d.problemf(n.at("spec", "retries"), "Function %s: %s", o.Name, landfall.MessageOf(err))
	}
	if known.Stream && known.Contract != nil && len(known.Contract.Input) > 0 {
		d.problemf(n.at("spec", "contract", "input"),
			"Function %s: its input cannot be checked before it starts, because it reads bodies while "+
				"they come (%s); leave out one of the two", o.Name, streamBody)
	}
	d.spec.Functions = append(d.spec.Functions, Function{
		Object: o, Environment: known.Environment.Name, EnvironmentNamespace: known.Environment.Namespace,
		Package: known.Package.Reference.Name, PackageNamespace: known.Package.Reference.Namespace,
		FunctionName: known.Package.FunctionName, Secrets: d.secrets(n, o.Name, known.Secrets),
		ConfigMaps: d.configMaps(n, o.Name, known.ConfigMaps), positions: d.checkContract(n, o.Name, known.Contract),
	})
	d.reference(n.at("spec", "package", "packageref", "name"), "Function "+o.Name, packageKind,
		known.Package.Reference.Name)
}

var ofContainers = regexp.MustCompile(`^container([^a-z].*)?$`)

// OfContainers reports whether an environment with a name is one of containers: then a package may have nothing but the
// image that the environment names.
func OfContainers(environment string) bool { return ofContainers.MatchString(environment) }

// MaxNamed is how many secrets a function may name, and how many config maps.
const MaxNamed = 64

// secrets returns the secrets that a function names.
func (d *document) secrets(n nodes, function string, named []reference) []Named {
	if len(named) > MaxNamed {
		d.problemf(n.at("spec", "secrets"), "Function %s names %d secrets; it may name %d", function, len(named), MaxNamed)
		return nil
	}
	var refs []Named
	variables := map[string]string{} // variable to the secret that it holds
	for i, ref := range named {
		s := Named{Pos: itemOf(n, i, "spec", "secrets"), Name: ref.Name, Namespace: ref.Namespace}
		if err := secret.CheckName(ref.Name); err != nil {
			d.problemf(s.Pos, "Function %s: %s", function, landfall.MessageOf(err))
			continue
		}
		variable := secret.Variable(ref.Name)
		switch first, taken := variables[variable]; {
		case taken && first == ref.Name:
			d.problemf(s.Pos, "Function %s names the secret %s twice", function, ref.Name)
		case taken:
			d.problemf(s.Pos, "Function %s: the secrets %s and %s would be the same variable, %s", function, first,
				ref.Name, variable)
		default:
			variables[variable] = ref.Name
			refs = append(refs, s)
		}
	}
	return refs
}

func readPackage(d *document, o Object, spec map[string]any, n nodes) {
	fillNamespace(spec, "environment")
	var known struct {
		Environment  reference   `json:"environment"`
		BuildCommand string      `json:"buildcmd"`
		Source       archiveSpec `json:"source"`
		Deployment   archiveSpec `json:"deployment"`
	}
	if !d.finish(&o, spec, &known) {
		return
	}
	p := Package{
		Object: o, Environment: known.Environment.Name, EnvironmentNamespace: known.Environment.Namespace,
		BuildCommand: known.BuildCommand,
		Source:       d.archive(n, "source", o.Name, known.Source),
		Deployment:   d.archive(n, "deployment", o.Name, known.Deployment),
	}
	switch {
	case known.Source.isEmpty() && known.Deployment.isEmpty() && !OfContainers(p.Environment):
		d.problemf(n.at("spec"), "Package %s has neither a source nor a deployment", o.Name)
	case strings.TrimSpace(p.BuildCommand) != "" && p.Environment == "":
		d.problemf(n.at("spec", "buildcmd"), "Package %s has a buildcmd and names no environment to run it in", o.Name)
	}
	d.spec.Packages = append(d.spec.Packages, p)
}

func readEnvironment(d *document, o Object, spec map[string]any, n nodes) {
	fillPrograms(o.Name, spec)
	var known struct {
		resourceFields

		Runtime runtimeSpec `json:"runtime"`
	}
	if !d.finish(&o, spec, &known) {
		return
	}
	d.checkLimits(spec, n)
	d.checkRuntime(o.Name, known.Runtime, n)
	if r, field, err := known.resources(); err != nil {
		d.problemf(n.at("spec", field), "Environment %s: %s", o.Name, landfall.MessageOf(err))
	} else {
		d.checkSizes("Environment "+o.Name, r, n)
	}
	d.spec.Environments = append(d.spec.Environments, Environment{o})
}

// checkLimits warns about limits at a place or with a name that nothing reads.
func (d *document) checkLimits(spec map[string]any, n nodes) {
	limits := map[string]bool{"cpu": true, "ephemeral-storage": true, "memory": true}
	given, _ := spec["resources"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if _, found := given[name]; found {
			d.warnf(n.at("spec", "resources"), "kept, not used: spec.resources.%s; a limit is spec.resources.limits.%s",
				name, name)
		}
	}
	for _, of := range []string{"limits", "requests"} {
		written, _ := given[of].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(written)) {
			if !limits[name] {
				d.warnf(n.at("spec", "resources", of), "kept, not used: spec.resources.%s.%s; %s", of, name, Suggest(name, limits))
			}
		}
	}
}

// checkSizes reports memory that is too small to start a process: usually a number of MiB without its unit.
func (d *document) checkSizes(who string, r landfall.Resources, n nodes) {
	const least = 1 << 20
	for _, size := range []struct {
		name  string
		bytes int64
	}{{"memory", r.Memory}, {"ephemeral-storage", r.Disk}} {
		if size.bytes > 0 && size.bytes < least {
			d.problemf(n.at("spec", "resources"),
				"%s: resources: %s is %d bytes, and at least 1Mi; with its unit it is a quantity such as 128Mi",
				who, size.name, size.bytes)
		}
	}
}

// stringsOf returns a checked list of text.
func stringsOf(v any) []string {
	items, _ := v.([]any)
	var all []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// sortedKeys returns the keys of m in order.
func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
