// Adapt makes a program of the functions in the current folder, which answer requests as net/http has them. Builds compile and run it.
//
//	adapt IMPORT-PATH-OF-THE-ADAPTOR
package main

import (
	"fmt"
	"os"

	"landfall.dev/landfall/environment/go/source"
)

func main() {
	if err := adapt(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func adapt(adaptor string) error {
	entries, err := os.ReadDir(".")
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if source.Reads(entry.Name()) {
			if files[entry.Name()], err = os.ReadFile(entry.Name()); err != nil {
				return err
			}
		}
	}
	folder, err := source.Read(files)
	if err != nil {
		return err
	}
	return source.Adapt(&folder, adaptor)
}
