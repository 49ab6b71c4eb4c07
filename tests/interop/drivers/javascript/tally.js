// What was read from one partition, hashed as ../README.md says.

'use strict'

const { createHash } = require('node:crypto')

class Tally {
  constructor() {
    this.hash = createHash('sha256')
    this.count = 0
    this.first = -1
    this.last = -1
  }

  add({ key, value, headers, timestamp, offset }, withTimestamps) {
    this.bytes(key)
    this.bytes(value)
    const listed = Object.entries(headers ?? {}).flatMap(([name, found]) => [found].flat().map((one) => [name, one]))
    this.int(listed.length)
    for (const [name, one] of listed) {
      this.bytes(Buffer.from(name))
      this.bytes(one)
    }
    const stamp = Buffer.alloc(8)
    stamp.writeBigInt64BE(withTimestamps ? BigInt(timestamp) : 0n)
    this.hash.update(stamp)
    this.first = this.count === 0 ? Number(offset) : this.first
    this.last = Number(offset)
    this.count += 1
  }

  int(value) {
    const size = Buffer.alloc(4)
    size.writeInt32BE(value)
    this.hash.update(size)
  }

  bytes(data) {
    this.int(data === null ? -1 : data.length)
    if (data !== null) this.hash.update(data)
  }

  report() {
    return { count: this.count, first: this.first, last: this.last, sha256: this.hash.digest('hex') }
  }
}

module.exports = Tally
