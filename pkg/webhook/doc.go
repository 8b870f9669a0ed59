// Package webhook answers the API server's admission reviews: one file per admitted
// kind, and for each kind three things kept apart. What arrives is decoded, a pure
// function decides, and the decision is turned into a patch or a refusal.
//
// Webhooks are advice in time. The guarantees are the controller's: whatever gets past
// a webhook that is down, is read by the same rules there. So nothing here may stand in
// the way of what it has no opinion on: of each object only the fields that decide are
// read, and what cannot be worked out is let through with a warning.
//
// It is ring 3: it is handed caches and the snapshot of nodes through small interfaces,
// and has no client.
package webhook
