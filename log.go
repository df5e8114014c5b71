package landfall

// LogAttrs are how a log names an app, as slog takes them. The id stays when the name is another app's.
func (a App) LogAttrs() []any { return []any{"app", a.Name, "app_id", a.ID} }

// LogAttrs are how a log names a run, beside its app, as slog takes them.
func (r Run) LogAttrs() []any { return []any{"run", r.ID, "commit", r.Commit} }
