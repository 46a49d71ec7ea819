// Package descriptors tells how many files a process may have open.
package descriptors

// Unknown is what [Limit] returns where the system has no such limit, or does not tell it.
const Unknown = 1 << 20
