package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxFrameBytes bounds a message, 1 GiB.
const maxFrameBytes = 1 << 30

// frameReader reads messages from a stream. If the stream is delimited, each message comes after
// its length as a varint. Otherwise the whole input, which may be empty, is one message.
type frameReader struct {
	r         *bufio.Reader
	delimited bool
	limit     int64 // the bound of a message, in bytes
	at        int64 // bytes read
	buf       bytes.Buffer
	done      bool
}

func newFrameReader(r io.Reader, delimited bool) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 1<<16), delimited: delimited, limit: maxFrameBytes}
}

// A place is the position of a message in the input: its number, from 1, and the offset of its
// first byte.
type place struct {
	number int
	offset int64
}

// at formats the position of byte b of the message, for the report of a fault.
func (p place) at(b int) string {
	return fmt.Sprintf("message %d at byte %d", p.number, p.offset+int64(b))
}

// eachFrame calls f for each message of the input, until f returns an error.
func eachFrame(in io.Reader, delimited bool, f func(p place, frame []byte) error) error {
	frames := newFrameReader(in, delimited)
	for number := 1; ; number++ {
		frame, offset, err := frames.next()
		p := place{number, offset}
		var bad *dataError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad): // the start of the next message is unknown
			return &dataError{fmt.Errorf("%s: %w", p.at(0), err)}
		case err != nil:
			return err
		}
		if err := f(p, frame); err != nil {
			return err
		}
	}
}

// next returns a message and the offset of its first byte in the input. The bytes are valid until
// the next call. The error is io.EOF after the last message, a *dataError for wrong framing at
// that offset, or the error of the input.
func (f *frameReader) next() (frame []byte, offset int64, err error) {
	if f.done {
		return nil, f.at, io.EOF
	}
	if !f.delimited {
		f.done = true
		return f.read(f.limit+1, false)
	}
	from := f.at
	size, err := binary.ReadUvarint(f)
	switch {
	case errors.Is(err, io.EOF):
		return nil, f.at, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, from, &dataError{errors.New("the length of a message is cut short")}
	case err != nil && f.at-from == binary.MaxVarintLen64: // a varint that is too long; any other error is that of the input
		return nil, from, &dataError{errors.New("the length of a message is not a varint")}
	case err != nil:
		return nil, from, err
	case size > uint64(f.limit):
		return nil, from, &dataError{fmt.Errorf("a message of %d bytes, the limit is %d", size, f.limit)}
	}
	return f.read(int64(size), true)
}

// read reads up to size bytes. It allocates only for bytes that arrive, because a length may be
// wrong.
func (f *frameReader) read(size int64, whole bool) (frame []byte, offset int64, err error) {
	offset = f.at
	f.buf.Reset()
	n, err := io.Copy(&f.buf, io.LimitReader(f.r, size))
	f.at += n
	switch {
	case err != nil:
		return nil, offset, err
	case whole && n < size:
		return nil, offset, &dataError{fmt.Errorf("a message of %d bytes is cut short after %d", size, n)}
	case n > f.limit:
		return nil, offset, &dataError{fmt.Errorf("a message of more than %d bytes", f.limit)}
	}
	return f.buf.Bytes(), offset, nil
}

// ReadByte implements io.ByteReader for the length of a message.
func (f *frameReader) ReadByte() (byte, error) {
	b, err := f.r.ReadByte()
	if err == nil {
		f.at++
	}
	return b, err
}

// writeFrame writes a message, after its length if delimited.
func writeFrame(w io.Writer, b []byte, delimited bool) error {
	if delimited {
		if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
			return err
		}
	}
	_, err := w.Write(b)
	return err
}
