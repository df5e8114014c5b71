package function_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cloudhttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// hearing is a function that answers with what an event said.
const hearing = `def main(event):
    return {'heard': event.get('data') or event.get('data_base64'), 'subject': event.get('subject'), 'mine': event.get('mine')}
`

// The SDKs of CloudEvents are clients of every address that takes events, in every mode, and read the answers.
func TestCloudEventsClients(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hear hear.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hear/hear.py", hearing)
	s.Pushed(r, "shop", "A function")
	var want []string
	addresses := []string{"/run", "/fire", "/functions/default/hear:latest"}
	for _, address := range addresses {
		asked := s.Send(http.MethodOptions, s.URL+address, "", "Authorization", "", "Webhook-Request-Origin",
			"sender.example.com", "Webhook-Request-Rate", "60")
		testkit.Equal(t, "status of the validation at "+address, asked.Status, http.StatusOK)
		testkit.Equal(t, "who may send to "+address, asked.Header.Get("Webhook-Allowed-Origin"), "*")
		const text, bytes = `{"heard":{"name":"Ada"},"mine":"7","subject":"order/7"}`,
			`{"heard":"AAH/","mine":"7","subject":"order/7"}`
		want = append(want, address+" binary "+text, address+" structured "+text, address+" binary "+bytes,
			address+" structured "+bytes, address+" batch "+text, address+" batch "+bytes)
	}
	slices.Sort(want)
	testkit.EqualList(t, "what Go's SDK reads", byGoSDK(s, addresses), want)
	testkit.EqualList(t, "what the SDK for Node.js reads", byNodeSDK(s, addresses), want)
}

// heard says in a line how an answer was got, and what it has.
func heard(s *site.Site, address, mode string, answer *cloudevents.Event) string {
	s.T.Helper()
	var data any
	if answer == nil || answer.Validate() != nil || answer.Extensions()["execution"] == nil {
		s.T.Fatalf("%s %s: got the answer %v, want an event with its execution", address, mode, answer)
	}
	if err := answer.DataAs(&data); err != nil {
		s.T.Fatalf("%s %s: %v in %s", address, mode, err, answer)
	}
	text, err := json.Marshal(data)
	if err != nil {
		s.T.Fatal(err)
	}
	return address + " " + mode + " " + string(text)
}

// byGoSDK sends events to each address in each mode, and returns what was answered.
func byGoSDK(s *site.Site, addresses []string) (got []string) {
	s.T.Helper()
	text := cloudevents.NewEvent()
	text.SetID("1")
	text.SetType("order")
	text.SetSource("/r/default/shop/hear")
	text.SetSubject("order/7")
	text.SetExtension("mine", "7")
	bytes := text.Clone()
	if err := text.SetData(cloudevents.ApplicationJSON, map[string]string{"name": "Ada"}); err != nil {
		s.T.Fatal(err)
	}
	if err := bytes.SetData("application/octet-stream", []byte{0, 1, 255}); err != nil {
		s.T.Fatal(err)
	}
	events := []cloudevents.Event{text, bytes}
	for _, address := range addresses {
		c, err := cloudevents.NewClientHTTP(cloudevents.WithTarget(s.URL+address),
			cloudevents.WithHeader("Authorization", "Bearer "+s.Token),
			cloudevents.WithRoundTripper(client.LocalTransport()))
		if err != nil {
			s.T.Fatal(err)
		}
		for mode, force := range map[string]func(context.Context) context.Context{"binary": binding.WithForceBinary,
			"structured": binding.WithForceStructured} {
			for _, e := range events {
				answer, result := c.Request(force(s.T.Context()), e)
				if !cloudevents.IsACK(result) {
					s.T.Fatalf("%s %s: %v", address, mode, result)
				}
				got = append(got, heard(s, address, mode, answer))
			}
		}
		for _, answer := range batchByGoSDK(s, address, events) {
			got = append(got, heard(s, address, "batch", &answer))
		}
	}
	slices.Sort(got)
	return got
}

// batchByGoSDK sends a batch.
func batchByGoSDK(s *site.Site, address string, events []cloudevents.Event) []cloudevents.Event {
	s.T.Helper()
	r, err := cloudhttp.NewHTTPRequestFromEvents(s.T.Context(), s.URL+address, events)
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Token)
	response, err := (&http.Client{Transport: client.LocalTransport()}).Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer response.Body.Close()
	answers, err := cloudhttp.NewEventsFromHTTPResponse(response)
	if err != nil {
		s.T.Fatalf("%s: %d %v", address, response.StatusCode, err)
	}
	return answers
}

// sender is a program for Node.js that does what byGoSDK does, of the server, the token and addresses in its arguments.
const sender = `
const http = require("node:http");
const { CloudEvent, HTTP, Mode, emitterFor } = require("cloudevents");
const [server, token, ...addresses] = process.argv.slice(2);

const post = (address) => ({ headers, body }) => new Promise((answered, failed) => {
  const request = http.request(server + address, { method: "POST", family: 4, agent: false, headers: { ...headers, Authorization: "Bearer " + token } }, (response) => {
    const pieces = [];
    response.on("data", (piece) => pieces.push(piece));
    response.on("end", () => answered({ headers: response.headers, body: Buffer.concat(pieces).toString() }));
  });
  request.on("error", failed);
  request.end(body);
});

const sorted = (data) => JSON.stringify(data, Object.keys(data).concat("name").sort());
const say = (address, mode, answer) => {
  answer.validate();
  if (!answer.execution) throw new Error(address + " " + mode + ": no execution in " + answer);
  console.log(address + " " + mode + " " + sorted(answer.data));
};

(async () => {
  const about = { id: "1", type: "order", source: "/r/default/shop/hear", subject: "order/7", mine: "7" };
  const events = [
    new CloudEvent({ ...about, datacontenttype: "application/json", data: { name: "Ada" } }),
    new CloudEvent({ ...about, datacontenttype: "application/octet-stream", data: new Uint8Array([0, 1, 255]) }),
  ];
  for (const address of addresses) {
    for (const [name, mode] of [["binary", Mode.BINARY], ["structured", Mode.STRUCTURED]]) {
      const emit = emitterFor(post(address), { binding: HTTP, mode });
      for (const event of events) say(address, name, HTTP.toEvent(await emit(event)));
    }
    const batch = { headers: { "content-type": "application/cloudevents-batch+json" }, body: "[" + events.map((e) => HTTP.structured(e).body).join(",") + "]" };
    for (const answer of HTTP.toEvent(await post(address)(batch))) say(address, "batch", answer);
  }
})().catch((error) => { console.error(error); process.exit(1); });
`

// byNodeSDK is byGoSDK by the SDK for Node.js.
func byNodeSDK(s *site.Site, addresses []string) []string {
	s.T.Helper()
	packages, err := filepath.Abs("../../build/npm/node_modules")
	if err == nil {
		_, err = os.Stat(filepath.Join(packages, "cloudevents"))
	}
	if err != nil {
		s.T.Fatal("the SDK for Node.js is not there; type: make build/npm")
	}
	program := filepath.Join(s.T.TempDir(), "sender.cjs")
	if err := os.WriteFile(program, []byte(sender), 0o600); err != nil {
		s.T.Fatal(err)
	}
	node := exec.CommandContext(s.T.Context(), "node", append([]string{program, s.URL, s.Token}, addresses...)...)
	node.Env = append(os.Environ(), "NODE_PATH="+packages)
	out, err := node.CombinedOutput()
	if err != nil {
		s.T.Fatalf("node: %v\n%s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	return got
}

// The conformance suite of the OCI distribution specification passes whole for pulling.
func TestRegistryConformance(t *testing.T) {
	t.Parallel()
	suite, err := filepath.Abs("../../build/bin/oci-conformance")
	if err == nil {
		_, err = os.Stat(suite)
	}
	if err != nil {
		t.Fatal("the conformance suite is not there; type: make build/bin/oci-conformance")
	}
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hear hear.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hear/hear.py", hearing)
	s.Pushed(r, "shop", "A function")
	image := pulled(s, "default/hear:latest")
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	blobs := []string{manifest.Config.Digest.String()}
	for _, layer := range manifest.Layers {
		blobs = append(blobs, layer.Digest.String())
	}
	digest := digestOf(t, image)
	run := exec.CommandContext(t.Context(), suite)
	run.Dir = t.TempDir()
	run.Env = append(os.Environ(), "OCI_RESULTS_DIR="+run.Dir, "OCI_VERSION=1.1", "OCI_REGISTRY=localhost:"+s.Port,
		"OCI_TLS=disabled", "OCI_USERNAME=whoever", "OCI_PASSWORD="+s.Token, "OCI_REPO1=default/hear",
		"OCI_REPO2=default/hear", "OCI_API_PUSH=false", "OCI_API_BLOBS_DELETE=false", "OCI_API_MANIFESTS_DELETE=false",
		"OCI_API_TAGS_DELETE=false", "OCI_RO_DATA_TAGS=latest live 1", "OCI_RO_DATA_MANIFESTS="+digest,
		"OCI_RO_DATA_BLOBS="+strings.Join(blobs, " "), "OCI_RO_DATA_REFERRERS="+digest)
	out, err := run.CombinedOutput()
	// K-021: the suite passes whole. It ends with a panic when it writes a report, behind the results.
	for _, result := range []string{`OCI Conformance Result: Pass`, ` FAIL\.+: +0`, ` Error\.+: +0`, ` Skip\.+: +0`,
		` Referrers\.+: +Pass`, ` Tag listing\.+: +Pass`, ` Blob get\.+: +Pass`, ` Manifest get by tag\.+: +Pass`} {
		if !regexp.MustCompile(`(?m)^ *` + result + `$`).Match(out) {
			t.Errorf("the suite does not say %q (%v):\n%s", result, err, out)
		}
	}
}
