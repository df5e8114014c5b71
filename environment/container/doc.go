// Package container takes container images apart: what is in a package as an OCI image layout or a docker archive becomes the
// folder that its processes see as their root.
//
// Images are other people's. Nothing of one is written outside the folder, whatever it names; a process of it is one user that can
// change no file, so owners, devices and special modes mean nothing, and what only they would make sense of is refused.
package container
