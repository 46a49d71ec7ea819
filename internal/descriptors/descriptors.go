// Package descriptors reports how many files a process may have open.
package descriptors

// Unknown is the result of [Limit] where the system has no such limit or does not report it.
const Unknown = 1 << 20
