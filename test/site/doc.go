// Package site runs `landfall serve` as a process of its own, with a data folder, on the engines that a test has, and
// drives it as people do: by git, by the command line, by HTTP.
package site
