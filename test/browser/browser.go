package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	browserpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// chromium is the one browser of all tests. End ends it.
var chromium = sync.OnceValues(func() (chromiumProcess, error) {
	profile, err := os.MkdirTemp("", "landfall-chromium-*")
	if err != nil {
		return chromiumProcess{}, err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath("chromium"), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.WSURLReadTimeout(testkit.Patience),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("no-proxy-server", true),
	}
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	p := chromiumProcess{context: func() context.Context { return ctx }, end: func() {
		_ = chromedp.Cancel(ctx) // waits for the process
		_ = os.RemoveAll(profile)
	}}
	if err := chromedp.Do(ctx); err != nil {
		p.end()
		return chromiumProcess{}, fmt.Errorf("chromium does not start: %w", err)
	}
	return p, nil
})

// chromiumProcess is a browser that runs.
type chromiumProcess struct {
	context func() context.Context // to make tabs in
	end     func()
}

// started is whether a test wanted the browser.
var started sync.Once

// End ends the browser, if a test wanted one.
func End() {
	wanted := true
	started.Do(func() { wanted = false })
	if !wanted {
		return
	}
	if p, err := chromium(); err == nil {
		p.end()
	}
}

// tabs bounds how many are open at once: the machines that run tests are small.
var tabs = make(chan struct{}, 2)

// Look is how somebody looks at pages.
type Look struct {
	Script bool
	Width  int64
	Scheme string
}

// String names the look as pictures are named.
func (l Look) String() string {
	script := "js"
	if !l.Script {
		script = "nojs"
	}
	return fmt.Sprintf("%d-%s-%s", l.Width, l.Scheme, script)
}

// Looks are all of them.
func Looks() []Look {
	var all []Look
	for _, script := range []bool{true, false} {
		for _, width := range []int64{360, 1400} {
			for _, scheme := range []string{"light", "dark"} {
				all = append(all, Look{script, width, scheme})
			}
		}
	}
	return all
}

// Tab is one tab with cookies of its own.
type Tab struct {
	t    testing.TB
	site *site.Site
	ctx  func() context.Context

	mu       sync.Mutex
	refusing string   // a path that answers with an error, of which Chromium speaks in the console
	errors   []string // what the console said since they were asked for
}

// NewTab opens a tab, which is closed with the test.
func NewTab(t testing.TB, s *site.Site, l Look) *Tab {
	t.Helper()
	started.Do(func() {})
	tabs <- struct{}{}
	t.Cleanup(func() { <-tabs })
	browser, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	ctx, closeTab := chromedp.NewContext(browser.context(), chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	b := &Tab{t: t, site: s, ctx: func() context.Context { return ctx }}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	command(b, log.Enable, cdp.Empty{})
	command(b, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: l.Width, Height: 900, DeviceScaleFactor: 1})
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.Scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !l.Script})
	return b
}

// command gives the tab a command of the protocol.
func command[P, R any](b *Tab, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, giveUp := context.WithTimeout(b.ctx(), testkit.Patience)
	defer giveUp()
	result, err := chromedp.Call(ctx, c, params)
	if err != nil {
		b.t.Fatalf("%s: %v", c.Method, err)
	}
	return result
}

// hear notes what a person would see in the console in red.
func (b *Tab) hear(event any) {
	var said string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			said = e.Type.String()
			for _, arg := range e.Args {
				said += " " + string(arg.Value)
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			said = e.Entry.Text + " " + e.Entry.URL
		}
	case *browserpage.EventJavascriptDialogOpening:
		said = "a dialog: " + e.Message
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if said != "" && (b.refusing == "" || !strings.HasSuffix(said, b.site.URL+b.refusing)) {
		b.errors = append(b.errors, said)
	}
}

// Refuses says that a path answers with an error, as the test wants.
func (b *Tab) Refuses(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusing = path
}

// Heard returns what the console said since it was asked last.
func (b *Tab) Heard() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := strings.Join(b.errors, "\n")
	b.errors = nil
	return said
}

// Do acts, and fails the test when it cannot.
func (b *Tab) Do(what string, action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, giveUp := context.WithTimeout(b.ctx(), testkit.Patience)
	defer giveUp()
	if err := chromedp.Do(ctx, action); err != nil {
		b.t.Fatalf("%s: %v; the console said: %s", what, err, b.Heard())
	}
}

// Open goes to an address of the control host.
func (b *Tab) Open(path string) {
	b.t.Helper()
	b.leave("open "+path, chromedp.Navigate(b.site.URL+path))
}

// Press clicks what a person would click, and waits for the page that it leads to.
func (b *Tab) Press(selector string) {
	b.t.Helper()
	b.leave("press "+selector, chromedp.Click(selector))
}

// leave does what leads to another page, and waits until that is there. Events do not say so: those of the page before
// it, which was not over, may come later.
func (b *Tab) leave(what string, action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	at := Value[string](b, `document.documentElement.dataset.left = "1"; location.href`)
	b.Do(what, action)
	b.Until("another page than "+at, `document.readyState === "complete" && !document.documentElement.dataset.left`)
}

// Fill types into a field.
func (b *Tab) Fill(selector, text string) {
	b.t.Helper()
	b.Do("type into "+selector, chromedp.SendKeys(selector, text))
}

// Choose chooses a file for a field.
func (b *Tab) Choose(selector, file string) {
	b.t.Helper()
	b.Do("choose a file for "+selector, chromedp.SetUploadFiles(selector, []string{file}))
}

// SignIn signs in with a token as a person does.
func (b *Tab) SignIn(token string) {
	b.t.Helper()
	b.Open("/sign-in")
	b.Fill("#token", token)
	b.Press("main form button")
}

// Value returns what an expression comes to. It works on a page whose scripts are off, too.
func Value[T any](b *Tab, expression string) T {
	b.t.Helper()
	ctx, giveUp := context.WithTimeout(b.ctx(), testkit.Patience)
	defer giveUp()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Until waits until an expression is true.
func (b *Tab) Until(what, expression string) {
	b.t.Helper()
	b.site.In(b.t).Eventually(what, func() bool {
		is, err := chromedp.Run(b.ctx(), chromedp.Evaluate[bool](expression))
		if _, wrong := errors.AsType[*chromedp.ExceptionError](err); wrong || b.ctx().Err() != nil {
			b.t.Fatalf("%s: %v", what, err)
		}
		return err == nil && is // an error: the page was left while it was asked
	})
}

// Text returns what a person reads on the page.
func (b *Tab) Text() string { return Value[string](b, `document.body.innerText`) }

// Path returns where the tab is.
func (b *Tab) Path() string {
	u, err := url.Parse(Value[string](b, `location.href`))
	if err != nil {
		b.t.Fatal(err)
	}
	return u.RequestURI()
}

// Picture keeps a picture of the whole page.
func (b *Tab) Picture(name string) {
	b.t.Helper()
	folder := filepath.Join("..", "..", "build", "pages")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.t.Fatal(err)
	}
	whole := true
	picture := command(b, browserpage.CaptureScreenshot,
		browserpage.CaptureScreenshotParams{CaptureBeyondViewport: &whole})
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture.Data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// WantUsable fails the test when the page has what its readers would stumble over.
func (b *Tab) WantUsable(name string) {
	b.t.Helper()
	if said := b.Heard(); said != "" {
		b.t.Errorf("%s: the console says: %s", name, said)
	}
	if wide := Value[[]int](b, `[document.scrollingElement.scrollWidth, innerWidth]`); wide[0] > wide[1] {
		b.t.Errorf("%s scrolls sideways: it is %d wide in a window of %d: %s", name, wide[0], wide[1],
			Value[string](b, `[...document.querySelectorAll("main *, header *")].filter(
			(e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll")).map((e) => e.outerHTML.slice(0, 120)).slice(0, 5).join("\n")`))
	}
	for _, node := range b.controls() {
		if strings.TrimSpace(string(node.Name.Value)) == "" || string(node.Name.Value) == `""` {
			b.t.Errorf("%s: a %s has no name: node %d", name, node.Role.Value, node.BackendDOMNodeID)
		}
	}
}

// controls are what one can operate or look at, as assistive programs see it.
func (b *Tab) controls() []*accessibility.Node {
	b.t.Helper()
	var found []*accessibility.Node
	for _, n := range command(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored || n.Role == nil || n.Name == nil {
			continue
		}
		switch strings.Trim(string(n.Role.Value), `"`) {
		case "button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "listbox", "spinbutton", "slider",
			"switch", "image", "region",
			"navigation", "DisclosureTriangle":
			found = append(found, n)
		}
	}
	return found
}
