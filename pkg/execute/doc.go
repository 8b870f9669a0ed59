// Package execute carries out plans: each action with one request that the API server
// refuses when the object has changed since the plan was made, and then the node's
// face in one patch. It is ring 1: it declares what it wants of its neighbours as
// small interfaces and decides nothing.
package execute
