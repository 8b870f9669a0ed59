// Package feed keeps the objects of one kind and their changes in order, for any number
// of readers. A reader that is slow hears of fewer versions, and one that has not heard of
// too many objects is let go: it costs neither the watch that feeds it nor other readers
// anything.
package feed
