package trace

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"landfall.dev/landfall"
)

// settings say where and how spans are sent.
type settings struct {
	endpoint string
	headers  map[string]string
	timeout  time.Duration // of one request
	gzip     bool
	tls      *tls.Config
}

// These are the prefixes of the exporter's settings. Settings for traces come before those for all signals.
const (
	ofTraces = "OTEL_EXPORTER_OTLP_TRACES_"
	ofAll    = "OTEL_EXPORTER_OTLP_"
)

// environment reads the settings of the exporter. An empty setting counts as not set.
type environment func(string) string

// get returns a setting, and the name of its variable.
func (e environment) get(setting string) (name, value string) {
	for _, prefix := range []string{ofTraces, ofAll} {
		if value := strings.TrimSpace(e(prefix + setting)); value != "" {
			return prefix + setting, value
		}
	}
	return "", ""
}

// wrong is the error for a variable with a wrong value. It does not show values that may be secret.
func wrong(name, problem string) error {
	return &landfall.Error{Op: "trace.Open", Kind: landfall.Invalid, Message: name + " " + problem}
}

// read returns the settings for traces, and false when traces are not wanted.
func read(getenv func(string) string) (s settings, wanted bool, err error) {
	e := environment(getenv)
	const exporter = "OTEL_TRACES_EXPORTER"
	chosen, usual := strings.TrimSpace(e(exporter)), ""
	switch {
	case strings.EqualFold(strings.TrimSpace(e("OTEL_SDK_DISABLED")), "true") || chosen == "none":
		return s, false, nil
	case chosen == "otlp":
		usual = "http://localhost:4318"
	case chosen != "":
		return s, false, wrong(exporter, fmt.Sprintf("is %q; right would be otlp or none", chosen))
	}
	if s.endpoint, err = e.endpoint(usual); err != nil || s.endpoint == "" {
		return s, false, err
	}
	if name, protocol := e.get("PROTOCOL"); name != "" && protocol != "http/protobuf" {
		return s, false, wrong(name, fmt.Sprintf("is %q; right would be http/protobuf, usually at port 4318", protocol))
	}
	if s.timeout, err = e.timeout(); err != nil {
		return s, false, err
	}
	switch name, compression := e.get("COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, false, wrong(name, fmt.Sprintf("is %q; right would be gzip or none", compression))
	}
	if s.headers, err = e.headers(); err != nil {
		return s, false, err
	}
	s.tls, err = e.tls()
	return s, err == nil, err
}

// endpoint returns the address to which spans are posted.
func (e environment) endpoint(usual string) (string, error) {
	name, value := e.get("ENDPOINT")
	if value == "" {
		name, value = ofAll+"ENDPOINT", usual
	}
	if value == "" {
		return "", nil
	}
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return "", wrong(name, "is no address of a collector; right would be like http://localhost:4318, without a user")
	}
	if name == ofAll+"ENDPOINT" {
		u = u.JoinPath("v1", "traces")
	}
	u.Path = cmp.Or(u.Path, "/")
	return u.String(), nil
}

func (e environment) timeout() (time.Duration, error) {
	const usual = 10 * time.Second
	name, value := e.get("TIMEOUT")
	if value == "" {
		return usual, nil
	}
	ms, err := strconv.ParseUint(value, 10, 31)
	if err != nil || ms == 0 {
		return 0, wrong(name, fmt.Sprintf("is %q; right would be milliseconds, like 10000", value))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// headers reads name=value pairs in percent-encoding.
func (e environment) headers() (map[string]string, error) {
	name, value := e.get("HEADERS")
	headers := map[string]string{}
	for pair := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, said, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		said, err := url.PathUnescape(strings.TrimSpace(said))
		if !ok || err != nil || !httpguts.ValidHeaderFieldName(key) || !httpguts.ValidHeaderFieldValue(said) {
			return nil, wrong(name, "is no list of headers; right would be like api-key=VALUE,other=VALUE")
		}
		headers[key] = said
	}
	return headers, nil
}

// tls returns the configured certificates, for the server and for ourselves.
func (e environment) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	authority, roots := e.get("CERTIFICATE")
	certificateName, certificate := e.get("CLIENT_CERTIFICATE")
	keyName, key := e.get("CLIENT_KEY")
	if roots != "" {
		pem, err := os.ReadFile(roots)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrong(authority, fmt.Sprintf("is %q, which is no file with certificates in PEM", roots))
		}
	}
	if certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, wrong(certificateName+" and "+keyName, "name no certificate in PEM with its key")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
