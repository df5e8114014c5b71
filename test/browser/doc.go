// Package browser shows pages of the control host in a real browser: one Chromium for all tests of a process, a tab
// with cookies of its own for each.
package browser
