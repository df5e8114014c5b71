package cli

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/spec"
)

// A proposal is what there is for an operand on a server, each with a word about it after a tab. None is no error.
type proposal func(ctx context.Context, cl *client.Client, in Operands, begun string) ([]string, error)

// completeTime is how long a shell waits for what there is.
const completeTime = 3 * time.Second

// proposals are what is proposed for an operand: by the group of its command and its name, or by its name alone. Names
// that are new, as those of create, are in none.
func proposals() map[string]proposal {
	releases := listed("/apps/{app}/releases", func(r client.Release) []string {
		all := []string{string(r.ID) + "\t" + r.Branch + " " + r.Commit.Short() + " " + namesOf(r)}
		for _, tag := range r.Tags {
			all = append(all, tag+"\t"+string(r.ID))
		}
		return all
	})
	triggers := listed("/apps/{app}/triggers", func(t client.Trigger) []string { return []string{t.Name} })
	functionTags := listed(functionTagsPath, func(t client.FunctionTag) []string { return []string{t.Name} })
	return map[string]proposal{
		"app":       listed("/apps", func(a client.App) []string { return []string{a.Name} }),
		"namespace": listed("/ns", func(n client.Namespace) []string { return []string{n.Name} }),
		"release":   releases,
		"a":         releases,
		"b":         releases,
		"tag": listed("/apps/{app}/releases", func(r client.Release) []string {
			return slices.DeleteFunc(slices.Clone(r.Tags), func(tag string) bool { return tag == landfall.LivePointer })
		}),
		"function":         functionKind().references,
		"pkg":              packageKind().references,
		"function tag":     functionTags,
		"trigger tag":      functionTags,
		"tag name":         functionTags,
		"function name":    functionKind().references,
		"function version": functionKind().versions,
		"package name":     packageKind().references,
		"environment name": environmentKind().references,
		"package version":  packageKind().versions,
		"function alias": listed("/functions/{name}/aliases", func(a client.Alias) []string {
			if a.Name == landfall.Latest { // it moves by itself
				return nil
			}
			return []string{a.Name + "\t" + a.String()}
		}),
		"canary name": listed("/canaries", func(k client.Canary) []string { return []string{k.Name + "\t" + movedBy(k)} }),
		"run id": listed("/runs", func(r client.Run) []string {
			return []string{r.ID + "\t" + strings.Join([]string{r.App, r.Branch, r.Commit.Short(), string(r.State)}, " ")}
		}),
		"execution id": listed("/executions", func(e landfall.Execution) []string {
			return []string{e.ID + "\t" + e.Function + " " + string(e.State)}
		}),
		"job id": listed("/jobs", func(j client.Job) []string { return []string{j.ID + "\t" + j.Function + " " + j.Name} }),
		"webhook id": listed("/webhooks", func(h client.Webhook) []string {
			return []string{h.ID + "\t" + h.Function + " " + h.Description}
		}),
		"job version":       versionsOfNamed,
		"execution version": versionsOfNamed,
		"webhook version":   versionsOfHook,
		"token name":        listed("/tokens", func(t client.Token) []string { return []string{t.Name} }),
		"namespace name":    listed("/ns", func(n client.Namespace) []string { return []string{n.Name} }),
		"secret name":       listed("/apps/{app}/secrets", func(s client.Secret) []string { return []string{s.Name} }),
		"route name":        triggers,
		"trigger name":      triggers,
	}
}

// listed proposes the names of what a list of the API has; of a long one, of its first part. Names in braces stand for
// operands: where one is missing, nothing is proposed.
func listed[T any](path string, names func(T) []string) proposal {
	most := 200
	if slices.Contains([]string{"/apps/{app}/triggers", "/apps/{app}/secrets", "/functions/{name}/aliases"}, path) {
		most = 0 // these lists have no pages
	}
	return func(ctx context.Context, cl *client.Client, in Operands, _ string) ([]string, error) {
		elements := strings.Split(path[1:], "/")
		for i, element := range elements {
			if name, ok := strings.CutPrefix(element, "{"); ok {
				if elements[i] = in[strings.TrimSuffix(name, "}")]; elements[i] == "" {
					return nil, nil
				}
			}
		}
		var query url.Values
		if strings.HasPrefix(path, "/function") || strings.HasPrefix(path, "/packages") || path == "/canaries" ||
			path == environmentKind().path {
			query = ofNamespace(in)
		}
		items, err := client.First[T](ctx, cl, pathOf(elements...), query, most)
		var all []string
		for _, item := range items {
			all = append(all, names(item)...)
		}
		return all, err
	}
}

// references proposes names; after a colon, the versions of the one before it. After a slash they are of the namespace
// before it.
func (k unitKind) references(ctx context.Context, cl *client.Client, in Operands, begun string) ([]string, error) {
	if namespace, rest, ok := strings.Cut(begun, "/"); ok && !strings.Contains(namespace, ":") {
		found, err := k.references(ctx, cl, Operands{"namespace": namespace}, rest)
		for i := range found {
			found[i] = namespace + "/" + found[i]
		}
		return found, err
	}
	name, _, ok := strings.Cut(begun, ":")
	if !ok {
		names := func(u client.Unit) []string { return []string{u.Name} }
		return listed(k.path, names)(ctx, cl, in, begun)
	}
	selectors, err := k.versions(ctx, cl, Operands{"name": name, "namespace": in["namespace"]}, "")
	for i := range selectors {
		selectors[i] = name + ":" + selectors[i]
	}
	return selectors, err
}

// versions proposes what names a version of the unit that was named: uids, labels, aliases, latest and live. Beside a
// package, a version is one of that.
func (k unitKind) versions(ctx context.Context, cl *client.Client, in Operands, begun string) ([]string, error) {
	if in["pkg"] != "" {
		k, in["name"] = packageKind(), in["pkg"]
	}
	in["name"], _, _ = strings.Cut(in["name"], ":")
	return listed(k.path+"/{name}/versions", func(v client.Version) []string {
		all := []string{string(v.UID) + "\t" + v.Metadata.Name}
		for name := range strings.SplitSeq(versionNames(v), ", ") {
			if name != "" {
				all = append(all, name+"\t"+string(v.UID))
			}
		}
		return all
	})(ctx, cl, in, begun)
}

// versionsOfNamed proposes versions of the FUNCTION of a command.
func versionsOfNamed(ctx context.Context, cl *client.Client, in Operands, begun string) ([]string, error) {
	in["name"] = in["function"]
	return functionKind().versions(ctx, cl, in, begun)
}

// versionsOfHook proposes versions of the function of a webhook, or of the FUNCTION that gets a new one.
func versionsOfHook(ctx context.Context, cl *client.Client, in Operands, begun string) ([]string, error) {
	if in["id"] != "" {
		var hook client.Webhook
		if err := cl.Do(ctx, http.MethodGet, pathOf("webhooks", in["id"]), nil, &hook); err != nil {
			return nil, err
		}
		in["function"], in["namespace"] = hook.Function, hook.Namespace
	}
	return versionsOfNamed(ctx, cl, in, begun)
}

// complete lets a shell ask for what an operand of a command, or of those below it, can be.
func (c *Call) complete(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		c.complete(below)
	}
	if cmd.HasSubCommands() {
		return
	}
	var words []string
	for word := range strings.FieldsSeq(cmd.Use) {
		words = append(words, strings.ToLower(strings.Trim(word, "[]")))
	}
	words = words[1:]
	if cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			in := given(cmd, words, args)
			for _, word := range words {
				if _, ok := in[word]; !ok {
					return c.propose(cmd, word, in, begun)
				}
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		ask := func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return c.propose(cmd, f.Name, given(cmd, words, args), begun)
		}
		if proposalFor(cmd, f.Name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, ask) // fails only for a flag that is not there, or asked for already
		}
	})
}

// given returns the operands that the words of a command line begin to say: those given by flags, and the others in
// their order.
func given(cmd *cobra.Command, words, args []string) Operands {
	in := Operands{}
	for _, name := range append([]string{"namespace", "app", "function", "pkg"}, words...) {
		if f := cmd.Flags().Lookup(name); f != nil && (f.Changed || !slices.Contains(words, name)) {
			in[name] = f.Value.String()
		}
	}
	for _, word := range words {
		if _, ok := in[word]; !ok && len(args) > 0 {
			in[word], args = args[0], args[1:]
		}
	}
	for _, word := range []string{"app", "name", "function"} {
		if namespace, name, err := splitName(in[word]); err == nil && namespace != "" {
			in["namespace"], in[word] = namespace, name
		}
	}
	return in
}

// proposalFor returns what is proposed for an operand or a flag of a command: as the nearest group of commands says, or
// as all do. nil: nothing is.
func proposalFor(cmd *cobra.Command, word string) proposal {
	all := proposals()
	if cmd.Name() == "create" && word == "name" && cmd.Parent().Name() != "alias" {
		return nil // it is new
	}
	for group := cmd.Parent(); group != nil; group = group.Parent() {
		if p, ok := all[group.Name()+" "+word]; ok {
			return p
		}
	}
	return all[word]
}

// propose asks the server for what an operand can be. A shell gets nothing when the server does not answer.
func (c *Call) propose(cmd *cobra.Command, word string, in Operands, begun string) ([]string,
	cobra.ShellCompDirective) {
	p := proposalFor(cmd, word)
	if p == nil {
		return nil, cobra.ShellCompDirectiveDefault // it may be a file
	}
	none := cobra.ShellCompDirectiveNoFileComp
	cl, err := c.Client()
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	found, _ := p(ctx, cl, in, begun)
	all := found[:0]
	for _, one := range found {
		if name, about, _ := strings.Cut(one, "\t"); strings.HasPrefix(name, begun) {
			all = append(all, strings.TrimSpace(printable(name)+"\t"+printable(about)))
		}
	}
	return all, none
}

// meant adds to an error of something that is not there which other name may have been meant: a near one of those that
// completion proposes for the first operand or flag that is none of them.
func (c *Call) meant(ctx context.Context, cmd *cobra.Command, in Operands, notFound error) error {
	cl, err := c.Client()
	if err != nil {
		return notFound
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	written := wordsOf(cmd, in)
	in = maps.Clone(in)
	for _, name := range []string{"app", "function", "pkg"} { // of which the others are
		if f := cmd.Flags().Lookup(name); f != nil && in[name] == "" {
			in[name] = f.Value.String()
		}
	}
	for _, given := range written {
		near := nearName(ctx, cl, proposalFor(cmd, given.word), in, given.written)
		if near != "" && !strings.Contains(landfall.MessageOf(notFound), strconv.Quote(near)) {
			return landfall.Wrapf("cli", landfall.NotFound, notFound, "%s; did you mean %q?",
				strings.TrimSuffix(landfall.MessageOf(notFound), "."), near)
		}
	}
	return notFound
}

// givenWord is what was written for an operand or a flag.
type givenWord struct{ word, written string }

// wordsOf returns what was written for a command: the namespace, the operands in their order, and the flags.
func wordsOf(cmd *cobra.Command, in Operands) []givenWord {
	all := []givenWord{{"namespace", in["namespace"]}}
	for _, operand := range strings.Fields(cmd.Use)[1:] {
		word := strings.ToLower(strings.Trim(operand, "[]"))
		all = append(all, givenWord{word, in[word]})
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			if _, isOperand := in[f.Name]; !isOperand {
				all = append(all, givenWord{f.Name, value})
			}
		}
	})
	return all
}

// nearName returns the name of what is proposed that is near to a written one, and nothing when that is there itself.
// Of a reference it compares the name, and then the version.
func nearName(ctx context.Context, cl *client.Client, p proposal, in Operands, written string) string {
	if p == nil || written == "" || isNumber(written) {
		return ""
	}
	name, selector, isReference := strings.Cut(written, ":")
	known := proposed(ctx, cl, p, in, name)
	switch {
	case !known[name]:
		near := spec.Nearest(name, known)
		if near != "" && isReference {
			near += ":" + selector
		}
		return near
	case !isReference || isNumber(selector):
		return ""
	}
	known = proposed(ctx, cl, p, in, written)
	if known[written] || known[name] { // no references are proposed
		return ""
	}
	return spec.Nearest(written, known)
}

// proposed returns the names that are proposed.
func proposed(ctx context.Context, cl *client.Client, p proposal, in Operands, begun string) map[string]bool {
	found, _ := p(ctx, cl, maps.Clone(in), begun)
	known := map[string]bool{}
	for _, one := range found {
		name, _, _ := strings.Cut(one, "\t")
		known[name] = true
	}
	return known
}

// isNumber reports whether a selector is the number of a version, to which each other one is near.
func isNumber(selector string) bool {
	_, err := strconv.Atoi(selector)
	return err == nil
}
