package parcel

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/test/testkit"
)

// part is a file of an archive.
type part struct {
	tar.Header
	data []byte
}

// sample returns the parts of a good archive, changed before they get their digests.
func sample(t *testing.T, change func(d *Document)) []part {
	t.Helper()
	objects := testkit.Must(disk.Open(t.TempDir()))(t)
	t.Cleanup(func() { _ = objects.Close() })
	blobs := contents{}
	put := func(key, kind, text string) Blob {
		digest := testkit.Must(objects.Create(t.Context(), key, bytes.NewReader([]byte(text)), int64(len(text))))(t)
		blobs[digest] = content{int64(len(text)), key, kind}
		return Blob{digest, int64(len(text))}
	}
	zipped := put("deploy.zip", archiveType, "stands for a zip")
	d := Document{Version: formatVersion, App: "shop", Release: "owf2k7qa", Units: []Unit{
		{Kind: landfall.FunctionUnit, Name: "cart", Spec: json.RawMessage(
			`{"environment":{"name":"python"},"package":{"packageref":{"name":"cart-pkg"}}}`)},
		{Kind: landfall.PackageUnit, Name: "cart-pkg", Spec: json.RawMessage(`{}`), Deployment: &zipped},
		{Kind: landfall.HTTPTrigger, Name: "buy", Spec: json.RawMessage(
			`{"functionref":{"name":"cart","type":"name"},"relativeurl":"/buy"}`)},
		{Kind: landfall.StaticUnit, Name: "/", Spec: json.RawMessage(`{"path":"/"}`), Files: []File{
			{put("a", fileType, "hello\n"), "/index.html", "ce013625030ba8dba906f756967f9e9ca394464a"},
			{put("b", fileType, ""), "/nothing.txt", ""},
		}},
	}}
	if change != nil {
		change(&d)
	}
	x := Exporter{Objects: objects}
	export := testkit.Must(x.layOut(d, blobs))(t)
	var b bytes.Buffer
	if err := export.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "its size", export.Size(), int64(b.Len()))
	var parts []part
	for r := tar.NewReader(&b); ; {
		header, err := r.Next()
		if err == io.EOF {
			return parts
		}
		parts = append(parts, part{*header, testkit.Must(io.ReadAll(r))(t)})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// packed writes parts into an archive.
func packed(t *testing.T, parts []part) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, p := range parts {
		p.Size = int64(len(p.data))
		err := w.WriteHeader(&p.Header)
		if _, wrote := w.Write(p.data); err != nil || wrote != nil {
			t.Fatal(err, wrote)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// open checks an archive.
func open(t *testing.T, data []byte) (*Parcel, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive.tar")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file := testkit.Must(os.Open(name))(t)
	t.Cleanup(func() { _ = file.Close() })
	return Open(t.Context(), file)
}

// A good archive is taken, and its blobs are what went in.
func TestOpen(t *testing.T) {
	t.Parallel()
	p := testkit.Must(open(t, packed(t, sample(t, nil))))(t)
	testkit.Equal(t, "its app", p.Document.App, "shop")
	index := p.Document.Units[3].Files[0]
	testkit.Equal(t, "a file", string(testkit.Must(io.ReadAll(p.open(index.Digest)))(t)), "hello\n")
}

// Wherever an archive is cut off or a byte of it is another, it is refused.
func TestDamagedArchives(t *testing.T) {
	t.Parallel()
	parts := sample(t, nil)
	data := packed(t, parts)
	content := int64(0)
	for _, p := range parts {
		content += 512 + (int64(len(p.data))+511)/512*512
	}
	const block = 512
	for at := int64(0); at < content; at += block / 2 {
		if _, err := open(t, data[:at]); !landfall.Is(err, landfall.Invalid) {
			t.Errorf("cut off at byte %d: got %v, want Invalid", at, err)
		}
	}
	at := int64(0)
	for _, p := range parts {
		at += block
		for _, i := range []int{0, len(p.data) / 2, len(p.data) - 1} {
			if i < 0 || len(p.data) == 0 {
				continue
			}
			damaged := bytes.Clone(data)
			damaged[at+int64(i)] ^= 0x01
			if _, err := open(t, damaged); !landfall.Is(err, landfall.Invalid) {
				t.Errorf("byte %d of %s: got %v, want Invalid", i, p.Name, err)
			}
		}
		at += (int64(len(p.data)) + block - 1) / block * block
	}
}

// What does not belong into an archive is refused with a sentence.
func TestForeignParts(t *testing.T) {
	t.Parallel()
	good := sample(t, nil)
	file := func(name, text string) part {
		return part{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, []byte(text)}
	}
	for name, test := range map[string]struct {
		parts []part
		says  string
	}{
		"nothing":             {nil, "no OCI image layout"},
		"another layout":      {slices.Concat([]part{file(layoutName, `{"imageLayoutVersion":"2.0.0"}`)}, good[1:]), "version 1.0.0"},
		"a path outside":      {append(slices.Clone(good), file("../evil", "x")), "does not belong there"},
		"a blob beside":       {append(slices.Clone(good), file(blobFolder+landfall.DigestOf([]byte("x")).Hex(), "x")), "1 parts that its manifest does not name"},
		"a blob twice":        {append(slices.Clone(good), good[len(good)-1]), "twice"},
		"a name that lies":    {append(slices.Clone(good), file(blobFolder+landfall.DigestOf([]byte("x")).Hex(), "y")), "is damaged"},
		"a link":              {append(slices.Clone(good), part{tar.Header{Name: blobFolder + "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, nil}), "no plain file"},
		"a part that is gone": {good[:len(good)-1], "lacks sha256:"},
		"two indices":         {append(slices.Clone(good), file(indexName, "{}")), "stands twice"},
	} {
		_, err := open(t, packed(t, test.parts))
		testkit.Kind(t, name, err, landfall.Invalid, "the archive ", test.says)
	}
}

// numbered returns so many names.
func numbered(format string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf(format, i))
	}
	return names
}

// reads is the spec of the sample's function when it reads secrets.
func reads(t *testing.T, secrets []string) json.RawMessage {
	t.Helper()
	var named []map[string]string
	for _, name := range secrets {
		named = append(named, map[string]string{"name": name})
	}
	return testkit.Must(json.Marshal(map[string]any{"environment": map[string]any{"name": "python"}, "secrets": named,
		"package": map[string]any{"packageref": map[string]any{"name": "cart-pkg"}}}))(t)
}

// What an archive says of its release must be possible.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(d *Document)
		says   string
	}{
		"another format":     {func(d *Document) { d.Version = 2 }, "has the format 2, and this program knows 1"},
		"no units":           {func(d *Document) { d.Units = nil }, "without units"},
		"a secret":           {func(d *Document) { d.Units[0].Kind = landfall.SecretUnit }, `kind "secret"`},
		"a unit twice":       {func(d *Document) { d.Units = append(d.Units, d.Units[0]) }, "function cart twice"},
		"a wrong name":       {func(d *Document) { d.Units[0].Name = "../cart" }, "wrong name"},
		"no package":         {func(d *Document) { d.Units[1].Name = "other" }, "lacks the package cart-pkg"},
		"no function":        {func(d *Document) { d.Units[0].Name = "other" }, "lacks the function cart"},
		"no deployment":      {func(d *Document) { d.Units[1].Deployment = nil }, "lacks what runs"},
		"files of a package": {func(d *Document) { d.Units[1].Files = d.Units[3].Files }, "can have none"},
		"a file outside":     {func(d *Document) { d.Units[3].Files[0].Path = "/../x" }, "where it cannot be served"},
		"a file beside":      {func(d *Document) { d.Units[3].Name = "/a"; d.Units[3].Spec = []byte(`{"path":"/a"}`) }, "where it cannot be served"},
		"no file":            {func(d *Document) { d.Units[3].Files = nil }, "has no file"},
		"another size":       {func(d *Document) { d.Units[3].Files[0].Size++ }, "lacks sha256:"},
		"another git name":   {func(d *Document) { d.Units[3].Files[0].Git = "aa013625030ba8dba906f756967f9e9ca394464a" }, "and it is ce0136"},
		"a wrong spec":       {func(d *Document) { d.Units[0].Spec = []byte(`[]`) }, "cannot be read"},
		"values without end": {func(d *Document) { d.Units[0].Spec = []byte("[" + strings.Repeat("{},", maxValues+1) + "{}]") },
			"too many values"},
		"a version by number": {func(d *Document) {
			d.Units[2].Spec = []byte(`{"functionref":{"name":"cart","type":"name","version":"4"},"relativeurl":"/buy"}`)
		}, "lacks the version cart:4, which the http-trigger buy names"},
		"a name that leads nowhere": {func(d *Document) { d.Names = map[string]landfall.UID{"cart:4": "owf2k7qb"} },
			`lacks the version "cart:4"`},
		"an alias that leads nowhere": {func(d *Document) {
			d.Aliases = []Alias{{Function: "cart", Name: "prod", To: []landfall.AliasShare{{UID: "owf2k7qb", Percent: 100}}}}
		}, "to which the alias cart:prod leads"},
		"a function tag that names nothing": {func(d *Document) {
			d.Tags = []Tag{{Name: "nightly", Functions: []landfall.TaggedFunction{{Name: "cart", UID: "owf2k7qb"}}}}
		}, "which the function tag nightly names"},
		"a tag that is not there": {func(d *Document) {
			d.Units[2] = Unit{Kind: landfall.TimeTrigger, Name: "night", Spec: []byte(
				`{"functionref":{"name":"nightly","type":"tag"},"cron":"0 3 * * *","method":"POST","subpath":"/"}`)}
		}, "lacks the function tag nightly, which the time-trigger night calls"},
		"a version of another function": {func(d *Document) {
			d.Versions = []Version{{Function: d.Units[0], Package: d.Units[1]}}
			d.Versions[0].Function.Name = "other"
		}, "has the function other beside its release"},
		"a version twice": {func(d *Document) {
			d.Versions = []Version{{Function: d.Units[0], Package: d.Units[1]}, {Function: d.Units[0], Package: d.Units[1]}}
		}, "or twice"},
		"a version without a package": {func(d *Document) {
			d.Versions = []Version{{Function: d.Units[0], Package: d.Units[1]}}
			d.Versions[0].Function.UID, d.Versions[0].Package.Deployment = "owf2k7qb", nil
		}, "lacks what runs"},
		"a secret twice":      {func(d *Document) { d.Secrets = []string{"KEY", "OTHER", "KEY"} }, "names a secret twice"},
		"a long branch":       {func(d *Document) { d.Branch = strings.Repeat("b", 1001) }, "names branch"},
		"an actor of escapes": {func(d *Document) { d.Actor = "ci\x1b[2J" }, `names actor "ci\x1b[2J"`},
		"a package of null":   {func(d *Document) { d.Units[1].Spec = []byte(`null`) }, "has a package cart-pkg that cannot be read"},
		"a package of text":   {func(d *Document) { d.Units[1].Spec = []byte(`"x"`) }, "has a package cart-pkg that cannot be read"},
		"an environment that nobody knows": {func(d *Document) {
			d.Units[0].Spec = []byte(`{"environment":{"name":"cobol"},"package":{"packageref":{"name":"cart-pkg"}}}`)
		}, `the environment "cobol"`},
		"a declared environment that nobody knows": {func(d *Document) {
			d.Units[0].Spec = []byte(`{"environment":{"name":"cobol"},"package":{"packageref":{"name":"cart-pkg"}}}`)
			d.Units = append(d.Units, Unit{Kind: landfall.EnvironmentUnit, Name: "cobol", Spec: []byte(`{"runtime":{"image":"cobol"}}`)})
		}, `the environment "cobol"`},
		"too many secrets": {func(d *Document) { d.Secrets = numbered("KEY%d", 201) }, "has 201 secrets; the limit is 200"},
		"too many secrets with those of versions": {func(d *Document) {
			d.Secrets = numbered("KEY%d", 180)
			d.Versions = []Version{{Function: d.Units[0], Package: d.Units[1]}}
			d.Versions[0].Function.UID = "owf2k7qb"
			d.Versions[0].Function.Spec = reads(t, numbered("OTHER%d", 21))
		}, "has 201 secrets, with those of the versions beside its release; the limit is 200"},
		"a function of too many secrets": {func(d *Document) { d.Units[0].Spec = reads(t, numbered("KEY%d", 65)) },
			"has the function cart, which names 65 secrets"},
		"a secret that cannot be": {func(d *Document) { d.Secrets = []string{"no name"} }, "names a secret that cannot be"},
		"a function tag of too many": {func(d *Document) {
			d.Tags = []Tag{{Name: "nightly", Functions: make([]landfall.TaggedFunction, 300_000)}}
		}, `has 300000 functions in the function tag "nightly"; the limit is 100`},
		"too many function tags of one function": {func(d *Document) {
			for _, name := range numbered("nightly-%d", 101) {
				d.Tags = append(d.Tags, Tag{Name: name, Functions: []landfall.TaggedFunction{{Name: "cart"}}})
			}
		}, `has 101 function tags that name the function "cart"; the limit is 100`},
		"too many aliases of one function": {func(d *Document) {
			for _, name := range numbered("prod-%d", 101) {
				d.Aliases = append(d.Aliases, Alias{Function: "cart", Name: name})
			}
		}, `has 101 aliases of the function "cart"; the limit is 100`},
		"too many units": {func(d *Document) { d.Units = make([]Unit, 10_001) }, "has 10001 units; the limit is 10000"},
		"too many files": {func(d *Document) { d.Units[3].Files = make([]File, artifact.MaxFiles+1) },
			"has 50001 static files; the limit is 50000"},
		"a trigger of too many functions": {func(d *Document) {
			d.Units[2].Spec = []byte(`{"functionref":{"type":"function-weights","functionweights":{` +
				strings.Join(numbered(`"cart:%d":1`, 101), ",") + `}},"relativeurl":"/buy"}`)
		}, "has the http-trigger buy, which leads to 101 functions; the limit is 100"},
		"too many versions": {func(d *Document) { d.Versions = make([]Version, maxBeside+1) }, "has 1001 versions beside its release"},
		"an alias that may not be called so": {func(d *Document) {
			d.Aliases = []Alias{{Function: "cart", Name: "latest", To: []landfall.AliasShare{{Percent: 100}}}}
		}, `has the alias "latest" of cart`},
		"an alias of 7 percent": {func(d *Document) {
			d.Aliases = []Alias{{Function: "cart", Name: "prod", To: []landfall.AliasShare{{Percent: 7}}}}
		}, "with 1 versions and 7 percent"},
		"a function tag that may not be called so": {func(d *Document) {
			d.Tags = []Tag{{Name: "x y/z", Functions: []landfall.TaggedFunction{{Name: "cart"}}}}
		}, `has the function tag "x y/z"`},
		"a path that begins alike": {func(d *Document) {
			d.Units[3].Name, d.Units[3].Spec, d.Units[3].Files = "/a", []byte(`{"path":"/a"}`), d.Units[3].Files[:1]
			d.Units[3].Files[0].Path = "/ab"
		}, "where it cannot be served"},
		"an alias of nothing": {func(d *Document) { d.Aliases = []Alias{{Function: "cart", Name: "prod"}} }, "which leads nowhere"},
		"a wrong commit":      {func(d *Document) { d.Commit = "HEAD" }, "a commit that is none"},
	} {
		_, err := open(t, packed(t, sample(t, test.change)))
		testkit.Kind(t, name, err, landfall.Invalid, "the archive ", test.says)
	}
}
