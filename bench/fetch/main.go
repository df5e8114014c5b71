// Command fetch fetches one commit into a mirror, and prints how many milliseconds that took and the most memory it
// held, in MiB. It is a program of its own so that nothing else counts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/builder"
)

func main() {
	const arguments = 6
	if len(os.Args) != arguments {
		fmt.Fprintln(os.Stderr, "usage: fetch ROOT URL HOST REF COMMIT")
		os.Exit(2)
	}
	took, err := fetch(os.Args[1], os.Args[2], os.Args[3], landfall.RefName(os.Args[4]), landfall.CommitSHA(os.Args[5]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(float64(took)/float64(time.Millisecond), bench.PeakMemory("self"))
}

func fetch(root, url, host string, ref landfall.RefName, commit landfall.CommitSHA) (time.Duration, error) {
	mirrors := &builder.Mirrors{Root: root, Dialer: &builder.Dialer{AllowedHosts: []string{host}}}
	begin := time.Now()
	mirror, err := mirrors.Fetch(context.Background(), builder.Remote{URL: url}, ref, commit)
	if err != nil {
		return 0, err
	}
	took := time.Since(begin)
	_, err = mirror.Commit(commit)
	return took, errors.Join(err, mirror.Close())
}
