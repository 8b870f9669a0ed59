// Package bundle writes the support bundle: one archive with what somebody needs who is
// asked for help, and nothing that must not leave the cluster.
//
// Of every object only the fields are kept that kinds.go lists, so that what nobody has
// thought of is left out. Secrets are never asked for. What may not be read, or is not
// there, is named in the archive and fails nothing.
//
// It is ring 3 and stands alone: it reads raw objects, since a bundle must show what the
// cluster has rather than what this program understands of it.
package bundle
