package inner

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// ReadEnvironment reads variables from the file of that number, each with a zero byte behind it, and closes the file.
func ReadEnvironment(number string) ([]string, error) {
	fd, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "environment")
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil || len(data) == 0 {
		return []string{}, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}
