// Package stream serves changes over a websocket in the words of Harvester's front-end: a
// client names the kinds that it wants to follow, and is told what happens to their
// objects. Who may follow what, and what each object looks like to whom, is the caller's.
//
// A client that does not keep up is let go with a reason, and begins anew. One that does
// not answer pings is let go as well. Neither holds up anybody else: each has a goroutine
// that writes and a queue of its own, see pkg/api/feed.
package stream
