package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/heap"
)

func serveCommand(c *cli.Call, version string) *cobra.Command {
	var level string
	var fresh bool
	var cmd *cobra.Command
	var configured func() (config, error)
	cmd = c.Command("serve", "Run the server",
		"landfall serve\nlandfall serve --data /var/lib/landfall --listen 0.0.0.0:8080 --url https://landfall.example.com\n"+
			"landfall serve --role router --listen 0.0.0.0:8080 --runners 10.0.0.7:8080,10.0.0.8:8080",
		func(ctx context.Context, _ cli.Operands) error {
			config, err := configured()
			if err != nil {
				return err
			}
			config.New, config.Version = fresh, version
			logger, err := newLogger(c, level)
			if err != nil {
				return err
			}
			return asGiven(cmd, serve(ctx, config, logger))
		})
	cmd.Long = serveHelp()
	configured = settingFlags(c, cmd)
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().BoolVar(&fresh, "new", false,
		"start, once, although a part is gone, or of another installation: make what is there one")
	return cmd
}

// settingFlags gives a command the flags of settings, of all or of some, and returns what reads the configuration:
// flags over the environment, over the file.
func settingFlags(c *cli.Call, cmd *cobra.Command, some ...string) func() (config, error) {
	var file string
	flags := map[string]*string{}
	cmd.Flags().StringVar(&file, "config", defaultConfigFile, "configuration file; need not be there")
	for _, s := range settings() {
		if s.secret || (len(some) > 0 && !slices.Contains(some, s.name)) {
			continue // other users of the machine can read arguments
		}
		help := s.help
		if s.def != "" {
			help += " (default " + s.def + ")"
		}
		flags[s.name] = cmd.Flags().String(flagOf(s.name), "", help)
	}
	return func() (config, error) {
		if err := checkEnvironment(c.Environ); err != nil {
			return config{}, err
		}
		given := map[string]string{}
		for name, value := range flags {
			if cmd.Flags().Changed(flagOf(name)) {
				given[name] = *value
			}
		}
		config, err := loadConfig(file, c.Getenv, given)
		return config, asGiven(cmd, err)
	}
}

// asGiven returns an error about a setting with the name by which it was given: that of a flag, if it was one. An error
// about two variables stays as it is.
func asGiven(cmd *cobra.Command, err error) error {
	setting, ok := strings.CutPrefix(landfall.MessageOf(err), envPrefix)
	name, text, _ := strings.Cut(setting, " ")
	if flag := cmd.Flags().Lookup(flagOf(name)); err != nil && ok && flag != nil && flag.Changed &&
		!strings.HasPrefix(text, "and ") {
		return &landfall.Error{Op: "config", Kind: landfall.KindOf(err), Message: "--" + flag.Name + " " + text, Err: err}
	}
	return err
}

// flagOf returns the flag of a setting.
func flagOf(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

// serve runs the server until ctx ends, which is no error, also when it ends while the server starts.
func serve(ctx context.Context, config config, logger *slog.Logger) error {
	heap.Watch()
	s, err := newServer(ctx, config, logger)
	if err != nil && ctx.Err() != nil { // whatever was being opened was left in the middle
		logger.InfoContext(ctx, "stopped before the server was ready", "reason", err)
		err = nil
	}
	if s != nil {
		err = errors.Join(s.Run(ctx), s.Close())
	}
	switch {
	case s == nil:
	case err == nil:
		logger.InfoContext(ctx, "stopped")
	case ctx.Err() != nil: // the command line only says that it was interrupted
		logger.ErrorContext(ctx, "stopped", "error", err)
	}
	return withCause(err)
}

// withCause returns err with its cause in the message: who starts a server is who mends it.
func withCause(err error) error {
	if err == nil {
		return nil
	}
	message := landfall.MessageOf(err)
	cause := outside(err)
	switch {
	case cause == "" || strings.Contains(message, cause):
		return err
	case message == landfall.MessageOf(errors.New("")): // nobody wrote one
		message = cause
	default:
		message += ": " + cause
	}
	return &landfall.Error{Op: "serve", Kind: landfall.KindOf(err), Message: message, Err: err}
}

// outside returns what the first error says that is none of ours; nothing when all are.
func outside(err error) string {
	switch e := any(err).(type) {
	case nil:
		return ""
	case *landfall.Error:
		return outside(e.Err)
	case interface{ Unwrap() []error }:
		for _, branch := range e.Unwrap() {
			if text := outside(branch); text != "" {
				return text
			}
		}
		return ""
	}
	return err.Error()
}

// newLogger returns the server's log: for people at a terminal, for programs otherwise.
func newLogger(c *cli.Call, level string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Invalid("--log-level is %q; right would be debug, info, warn or error", level)
	}
	options.Level = l
	if cli.IsTerminal(c.Stderr) {
		return slog.New(slog.NewTextHandler(c.Stderr, options)), nil
	}
	return slog.New(slog.NewJSONHandler(c.Stderr, options)), nil
}

// serveHelp explains where settings come from.
func serveHelp() string {
	var b strings.Builder
	b.WriteString("Run the server: all of it in one process, or a part of it by its role.\n\n")
	for _, r := range roles() {
		fmt.Fprintf(&b, "  %-9s %s\n", r, r.does())
	}
	b.WriteString("\nEach setting is a flag, an environment variable, or a line of the configuration file, in this " +
		"order of precedence:\n--max-push, LANDFALL_MAX_PUSH, max_push. These are no flags, and may also come from a " +
		"file, named by the variable with _FILE behind it:\n")
	for _, s := range settings() {
		if s.secret {
			b.WriteString("\n  " + envPrefix + s.name + ": " + s.help)
		}
	}
	return b.String()
}
