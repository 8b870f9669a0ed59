// Package cluster puts a dev cluster together: it boots the parts in the order of
// their dependencies and as parallel as these allow, watches over them, and stops
// them. It is the only package that knows all others.
package cluster
