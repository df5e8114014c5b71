package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"landfall.dev/landfall"
)

// check refuses a configuration that no store can have.
func (c Config) check() error {
	const op = "s3.check"
	if s3utils.CheckValidBucketNameStrict(c.Bucket) != nil {
		return landfall.Errorf(op, landfall.Invalid,
			"LANDFALL_S3_BUCKET is %q; right would be 3 to 63 lower-case letters, digits, dots and hyphens", c.Bucket)
	}
	host, _, err := net.SplitHostPort(c.Endpoint)
	if err != nil {
		host = c.Endpoint
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && c.Style == HostStyle {
		return landfall.Errorf(op, landfall.Invalid,
			"LANDFALL_S3_STYLE is host, and there is no name below the IP address %s; right would be path", host)
	}
	return nil
}

// openError says why a bucket cannot be used at the start: the cause, and which setting to change. It is Invalid when
// only another setting helps; otherwise it keeps its Kind.
func (s *Store) openError(ctx context.Context, c Config, err error) error {
	const op landfall.Op = "s3.open"
	response, answered := errors.AsType[minio.ErrorResponse](err)
	if e, ours := errors.AsType[*landfall.Error](err); ours && !answered && e.Kind == landfall.Invalid ||
		ctx.Err() != nil {
		return err
	}
	if answered { // it may be the answer to a HEAD, which has no reason
		for object := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{MaxKeys: 1}) {
			if again, ok := errors.AsType[minio.ErrorResponse](object.Err); ok && again.StatusCode == response.StatusCode {
				response = again
			}
			break
		}
	}
	e := &landfall.Error{Op: op, Kind: landfall.Unavailable}
	var cause, advice string
	if answered {
		cause = response.Code + ": " + strings.TrimSuffix(response.Message, ".")
		if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusInternalServerError &&
			response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusRequestTimeout {
			e.Kind, advice = landfall.Invalid, refusalAdvice(c, response)
		}
	} else {
		e.Kind, cause, advice = noAnswerAdvice(c, err)
	}
	e.Message = strings.TrimSuffix(fmt.Sprintf("the bucket %s at %s cannot be used: %s; %s", c.Bucket, c.Endpoint, cause,
		advice), "; ")
	return e
}

// refusalAdvice says what to change when the store has refused a request.
func refusalAdvice(c Config, response minio.ErrorResponse) string {
	switch response.Code {
	case "InvalidAccessKeyId", "XAdminUserNotFound": // the latter is versitygw's
		return "LANDFALL_S3_ACCESS_KEY is none of that store's"
	case "SignatureDoesNotMatch":
		return "LANDFALL_S3_SECRET_KEY is another one than the access key's"
	case "RequestTimeTooSkewed":
		return "set this machine's clock"
	case "BucketAlreadyExists":
		return "it is somebody else's; LANDFALL_S3_BUCKET names one of your own"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException",
		"InvalidLocationConstraint":
		return fmt.Sprintf("LANDFALL_S3_REGION is %q, and must be the bucket's", c.Region)
	}
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		return "LANDFALL_S3_ACCESS_KEY and LANDFALL_S3_SECRET_KEY must be those of a user who may make, read, list and " +
			"delete objects there"
	}
	return "LANDFALL_S3_ENDPOINT (https, or http with LANDFALL_S3_INSECURE=true), LANDFALL_S3_STYLE and " +
		"LANDFALL_S3_REGION must be what the store wants"
}

// noAnswerAdvice says what to change when the store has not answered.
func noAnswerAdvice(c Config, err error) (kind landfall.Kind, cause, advice string) {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	name, unresolved := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return landfall.Invalid, err.Error(), "right would be https at that port, or LANDFALL_S3_INSECURE=true"
	case unresolved && name.IsNotFound && c.Style == HostStyle:
		return landfall.Invalid, err.Error(),
			"LANDFALL_S3_STYLE is host, which asks for a name below LANDFALL_S3_ENDPOINT; path does not"
	case unresolved && name.IsNotFound:
		return landfall.Invalid, err.Error(), "LANDFALL_S3_ENDPOINT names a host that is not known here"
	}
	return landfall.Unavailable, "it does not answer: " + err.Error(), "LANDFALL_S3_ENDPOINT says where it is"
}
