// Package testkit has what tests of every room say alike.
package testkit
