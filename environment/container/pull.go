package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
)

// Registries pulls images from registries, anonymously or with a login for the registry's host.
type Registries struct {
	Transport http.RoundTripper // decides which addresses may be reached
	Bytes     int64             // limit for one image, as it is transferred; 0: 1 GiB
}

const (
	pinPatience  = time.Minute
	pullPatience = 20 * time.Minute
)

// Pin returns a reference with the digest of the image that reference names now, so it always names the same image.
// Invalid for a malformed reference, or one to an image that does not exist or is private; Forbidden when the address
// may not be reached; Unavailable when the registry does not answer.
func (r Registries) Pin(ctx context.Context, reference string, logins map[string]secret.Login) (string, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", pullError(ctx, reference, err)
	}
	if _, ok := ref.(name.Digest); ok {
		return reference, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pinPatience)
	defer cancel()
	found, err := remote.Get(ref, r.options(ctx, ref, logins)...)
	if err != nil {
		return "", pullError(ctx, reference, err)
	}
	return fmt.Sprintf("%s@%s", ref.Name(), found.Digest), nil
}

// Pull writes the image of a pinned reference, for this machine, into a file, as docker save does. It checks every byte
// against its digest. Errors are those of Pin; Invalid also for an image over the limits.
func (r Registries) Pull(ctx context.Context, pinned, file string, logins map[string]secret.Login) error {
	ctx, cancel := context.WithTimeout(ctx, pullPatience)
	defer cancel()
	ref, err := name.ParseReference(pinned)
	if err != nil {
		return pullError(ctx, pinned, err)
	}
	image, err := remote.Image(ref, r.options(ctx, ref, logins)...)
	if err == nil {
		err = r.check(image)
	}
	if err == nil {
		err = tarball.WriteToFile(file, ref, image)
	}
	if err != nil {
		return pullError(ctx, pinned, err)
	}
	return nil
}

func (r Registries) options(ctx context.Context, ref name.Reference, logins map[string]secret.Login) []remote.Option {
	as := authn.Anonymous
	if l, ok := logins[strings.ToLower(ref.Context().RegistryStr())]; ok {
		as = authn.FromConfig(authn.AuthConfig{Username: l.User, Password: l.Password.Reveal(),
			IdentityToken: l.Token.Reveal()})
	}
	return []remote.Option{
		remote.WithAuth(as),
		remote.WithContext(ctx), remote.WithTransport(schemeTransport{r.Transport, ref.Context().Scheme()}),
		remote.WithJobs(1), remote.WithUserAgent("landfall"),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}
}

// schemeTransport sends requests with one scheme, also after redirects: plain http is for registries on this machine.
type schemeTransport struct {
	http.RoundTripper
	scheme string
}

// RoundTrip implements http.RoundTripper.
func (w schemeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.scheme == "https" && r.URL.Scheme != w.scheme {
		return nil, &landfall.Error{Op: "container.Pull", Kind: landfall.Forbidden,
			Message: "the registry sends on to " + r.URL.Host + " without https"}
	}
	return w.RoundTripper.RoundTrip(r)
}

// check checks the sizes that an image announces, to which its bytes are held.
func (r Registries) check(image v1.Image) error {
	limits := Limits{}.withDefaults()
	left := cmp.Or(r.Bytes, 1<<30)
	manifest, err := image.Manifest()
	switch {
	case err != nil:
		return err
	case manifest.Config.Size < 0 || manifest.Config.Size > maxDocument: // a negative size would be read without an end
		return invalidImage("has a configuration with more than %d bytes", maxDocument)
	case len(manifest.Layers) > limits.Layers:
		return invalidImage("has %d layers; the limit is %d", len(manifest.Layers), limits.Layers)
	}
	for _, l := range manifest.Layers {
		if left -= l.Size; l.Size < 0 || left < 0 {
			return invalidImage("is larger than the limit")
		}
	}
	return nil
}

// pullError is the error for an image that could not be pulled.
func pullError(ctx context.Context, reference string, err error) error {
	const op landfall.Op = "container.Pull"
	if ours, ok := errors.AsType[*landfall.Error](err); ok { // the library may hide it
		return landfall.Wrapf(op, landfall.KindOf(ours), err, "%s: %s", reference, landfall.MessageOf(ours))
	}
	if _, ok := errors.AsType[*name.ErrBadName](err); ok {
		return landfall.Wrapf(op, landfall.Invalid, err,
			"%q is no image: it is written REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST", reference)
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
			return &landfall.Error{Op: op, Kind: landfall.Invalid,
				Message: reference + " is not there, or asks for a password: " +
					"landfall secret set APP " + secret.DockerConfig + " --build stores one; or put the image into the package",
				Err: err}
		}
	}
	if strings.Contains(err.Error(), "no child with platform") { // the library has no other sign for it
		return landfall.Wrapf(op, landfall.Invalid, err, "%s is not for this server, which runs linux/%s", reference,
			runtime.GOARCH)
	}
	kind := landfall.Unavailable
	if errors.Is(context.Cause(ctx), context.Canceled) {
		kind = landfall.Canceled
	}
	return landfall.Wrapf(op, kind, err, "%s cannot be pulled now: %v", reference, err)
}
