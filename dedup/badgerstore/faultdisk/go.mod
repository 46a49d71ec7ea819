// The disk of tests that cut the power and fail writes. The library does not depend on FUSE.
module github.com/eyelet-dev/eyelet/dedup/badgerstore/faultdisk

go 1.26.0

replace github.com/eyelet-dev/eyelet => ../../..

require (
	github.com/eyelet-dev/eyelet v0.0.0
	github.com/hanwen/go-fuse/v2 v2.12.1
)

require golang.org/x/sys v0.50.0 // indirect
