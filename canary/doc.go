// Package canary moves calls from an old version to a new one, step by step, and back when the new one fails.
package canary
