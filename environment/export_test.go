package environment

// Interpreter returns where an interpreter lies below a folder as /usr is one.
func Interpreter(below string, names ...string) (string, error) { return interpreter(below, names...) }

// Installed reports whether the Python below a folder as /usr is one has a library.
func Installed(below, library string) bool { return hasLibrary(below, library) }
