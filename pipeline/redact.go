package pipeline

import (
	"context"
	"fmt"
	"maps"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
)

// redactor returns a redactor for the values that an app's functions and builds may have now, and for those that the
// builds of a run have already. Without a key there is none.
func (p *Pipeline) redactor(ctx context.Context, app landfall.App,
	already map[string]secret.Text) (*secret.Redactor, error) {
	if p.Secrets == nil {
		return secret.NewRedactor(nil), nil
	}
	owned, err := p.DB.UnitsOf(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	values, building := map[string]secret.Text{}, map[string]secret.Text{}
	maps.Copy(building, already)
	for _, row := range owned {
		if row.Unit.Kind != landfall.SecretUnit {
			continue
		}
		for _, spec := range secret.Specs() {
			v, err := p.DB.NewestVersion(ctx, row.ID, spec.JSON())
			if err != nil {
				if landfall.KindOf(err) == landfall.NotFound {
					continue
				}
				return nil, err
			}
			content, err := secret.ReadContent(v.Content)
			if err != nil || !content.Revoked.IsZero() {
				continue
			}
			value, err := p.Secrets.Open(secret.Owner{App: app.ID, Name: row.Unit.Name}, content.Sealed)
			switch {
			case err != nil:
			case spec.Build:
				building[fmt.Sprintf("%s:%d", row.Unit.Name, v.Number)] = value
			default:
				values[fmt.Sprintf("%s:%d", row.Unit.Name, v.Number)] = value
			}
		}
	}
	maps.Copy(values, secret.Passwords(building))
	return secret.NewRedactor(values), nil
}
