// Package certificates keeps the certificate with which every replica of the manager
// serves TLS: its own CA, the serving certificate that it signs, both shared by all
// replicas through one Secret, and the CA bundle in the webhook configurations. It is
// ring 2 and knows neither what is served nor by whom.
//
// # Rotation without a refused request
//
// An API server verifies what a replica presents against the CA bundle of its copy of a
// webhook configuration, and both change at different moments. So nothing is presented
// before everybody who verifies can know it:
//
//	introduced   the next CA is made. The bundle has it at once; it signs nothing yet
//	published    every webhook configuration has been seen to carry the bundle
//	settled      a while later, since the API servers' own copies lag behind
//	promoted     the next CA signs a new serving certificate, which replicas load as
//	             they see it. The CA before it stays in the bundle,
//	retired      until no replica can be presenting what it has signed
//
// The step to take is decided by a pure function of the Secret, the configurations and
// the time (see rules.advance), and each step is one write of the Secret with its
// resourceVersion. So any replica may take it, leader or not, several may try at once,
// and one that dies leaves nothing half done.
//
// What is damaged is repaired with what remains. While a usable serving certificate is
// left, in the Secret or in the memory of a replica, even the loss of the CA's key or of
// the whole Secret is only a reason to introduce the next CA.
package certificates
