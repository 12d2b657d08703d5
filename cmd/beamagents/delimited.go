package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxFrameBytes bounds one message: 1 GiB.
const maxFrameBytes = 1 << 30

// frameReader reads messages from a stream: delimited, each behind its length as a
// varint, or one that is the whole input, an empty one too.
type frameReader struct {
	r         *bufio.Reader
	delimited bool
	limit     int64 // of one message, in bytes
	at        int64 // bytes read
	buf       bytes.Buffer
	done      bool
}

func newFrameReader(r io.Reader, delimited bool) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 1<<16), delimited: delimited, limit: maxFrameBytes}
}

// next returns a message and the offset of its first byte in the input. The bytes are
// valid until the next call. The error is io.EOF after the last message, a *dataError
// where the framing is at fault, else that of the input.
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
		return nil, from, &dataError{fmt.Errorf("byte %d: the length of a message is cut short", from)}
	case err != nil && f.at-from == binary.MaxVarintLen64: // the only other one that is not of the input
		return nil, from, &dataError{fmt.Errorf("byte %d: the length of a message is not a varint", from)}
	case err != nil:
		return nil, from, err
	case size > uint64(f.limit):
		return nil, from, &dataError{fmt.Errorf("byte %d: a message of %d bytes, the limit is %d", from, size, f.limit)}
	}
	return f.read(int64(size), true)
}

// read returns up to size bytes. It makes room as they come, not for what a length
// claims.
func (f *frameReader) read(size int64, whole bool) (frame []byte, offset int64, err error) {
	offset = f.at
	f.buf.Reset()
	n, err := io.Copy(&f.buf, io.LimitReader(f.r, size))
	f.at += n
	switch {
	case err != nil:
		return nil, offset, err
	case whole && n < size:
		return nil, offset, &dataError{fmt.Errorf("byte %d: a message of %d bytes is cut short after %d", offset, size, n)}
	case n > f.limit:
		return nil, offset, &dataError{fmt.Errorf("byte %d: a message of more than %d bytes", offset, f.limit)}
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

// writeFrame writes a message, behind its length if delimited.
func writeFrame(w io.Writer, b []byte, delimited bool) error {
	if delimited {
		if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
			return err
		}
	}
	_, err := w.Write(b)
	return err
}
