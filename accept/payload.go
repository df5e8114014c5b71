package accept

import (
	"context"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zstd"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

const (
	// maxPayload is how many bytes a payload may have that is kept.
	maxPayload = 1 << 20
	// maxPayloads is how many bytes of payloads are kept of one repository, or of one hook, compressed, besides the
	// oldest; so many are of all repositories without an app together.
	maxPayloads = 8 << 20
)

// packer compresses payloads.
type packer struct{ encoders sync.Pool }

// pack compresses what a delivery said; nil when that need not be kept, because there is nothing to judge again, or is
// too large.
func (p *packer) pack(event webhook.Event) ([]byte, error) {
	if event.Repository.ID == 0 || len(event.Payload) == 0 || len(event.Payload) > maxPayload {
		return nil, nil
	}
	encoder, ok := p.encoders.Get().(*zstd.Encoder)
	if !ok {
		var err error
		encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(zstd.MinWindowSize<<6))
		if err != nil {
			return nil, err
		}
	}
	defer p.encoders.Put(encoder)
	return encoder.EncodeAll(event.Payload, nil), nil
}

// unpack is the reverse of pack.
func unpack(packed []byte) ([]byte, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayload))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(packed, nil)
}

// keepPayload stores a payload that is packed, beside its delivery.
func keepPayload(ctx context.Context, tx *store.Tx, d landfall.Delivery, packed []byte) error {
	if packed == nil {
		return nil
	}
	account := d.Hook
	if account == "" && !d.Unmatched {
		account = strconv.FormatInt(d.Repository, 10)
	}
	return tx.KeepPayload(ctx, d, account, packed, maxPayloads)
}
