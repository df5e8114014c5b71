package landfall

// LogAttrs returns how a log names an app, as slog takes it. The id stays when another app gets the name.
func (a App) LogAttrs() []any { return []any{"app", a.Name, "app_id", a.ID} }

// LogAttrs returns how a log names a run, beside its app, as slog takes it.
func (r Run) LogAttrs() []any { return []any{"run", r.ID, "commit", r.Commit} }
