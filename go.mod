module github.com/beamagents/beamagents-go

go 1.26.0

require (
	github.com/apache/beam/sdks/v2 v2.77.0 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
