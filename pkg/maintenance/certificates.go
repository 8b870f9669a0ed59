package maintenance

// Annotations of the Secret that holds the manager's own CA and serving certificate.
const (
	// AnnotationRotate asks for a rotation at once; see [RotateServing] and [RotateCA]
	// for its values. A user writes it, Drydock consumes it.
	AnnotationRotate = "drydock.dev/rotate"
	// AnnotationCAPublished is since when every webhook configuration has been seen to
	// trust the next CA.
	AnnotationCAPublished = "drydock.dev/ca-published"
	// AnnotationCAPromoted is since when the present CA signs. Those before it are
	// trusted for a while longer.
	AnnotationCAPromoted = "drydock.dev/ca-promoted"
)

// Values of AnnotationRotate.
const (
	// RotateServing replaces the serving certificate, signed by the same CA.
	RotateServing = "serving"
	// RotateCA introduces a new CA, which replaces the serving certificate as well.
	RotateCA = "ca"
)
