// The driver of kafkajs. See ../README.md for what goes in and out.

'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const Batch = require('kafkajs/src/consumer/batch')
const lz4 = require('lz4js')
const snappy = require('kafkajs-snappy')
const zstd = require('@bokuweb/zstd-wasm')
const Tally = require('./tally')

// kafkajs brings gzip and leaves the other codecs to plug-ins.
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => {
    const frame = Buffer.from(lz4.compress(encoder.buffer))
    // Kafka reads independent blocks only. With one block of up to 4 MiB the mark is all that is missing;
    // the third byte is the descriptor's checksum.
    frame.set([0x60, 0x70, 0x73], 4)
    return frame
  },
  decompress: async (data) => Buffer.from(lz4.decompress(data)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (data) => Buffer.from(zstd.decompress(data)),
})

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const ACKS = { all: -1, 1: 1, 0: 0 }
const BATCH_BYTES_MAX = 500_000

const say = (value) => process.stdout.write(JSON.stringify(value) + '\n')
const bytes = (text) => (text === null ? null : Buffer.from(text, 'base64'))

function message(record) {
  const headers = {}
  for (const [name, value] of record.headers) {
    headers[name] = [...(headers[name] ?? []), bytes(value)]
  }
  return {
    partition: record.partition,
    key: bytes(record.key),
    value: bytes(record.value),
    headers,
    ...(record.timestamp === null ? {} : { timestamp: String(record.timestamp) }),
  }
}

async function produce(kafka, step) {
  const producer = kafka.producer({ idempotent: step.acks === 'all', maxInFlightRequests: 1 })
  await producer.connect()
  const send = (messages) =>
    producer.send({ topic: step.topic, acks: ACKS[step.acks], compression: CODECS[step.codec], messages })
  let first = true
  let waiting = []
  let waitingBytes = 0
  for (const record of step.records) {
    waiting.push(message(record))
    waitingBytes += record.value === null ? 0 : record.value.length
    if (step.pause_ms || waitingBytes > BATCH_BYTES_MAX) {
      await send(waiting)
      waiting = []
      waitingBytes = 0
    }
    if (step.pause_ms) {
      if (first) say({ first: true })
      first = false
      await sleep(step.pause_ms)
    }
  }
  if (waiting.length > 0) await send(waiting)
  await producer.disconnect()
  return { produced: step.records.length }
}

// kafkajs reads in groups only, so this calls the fetch that its consumer is made of, partition by partition.
async function consume(kafka, step) {
  const createCluster = Object.getOwnPropertySymbols(kafka).find((one) => String(one).includes('createCluster'))
  const cluster = kafka[createCluster]({ metadataMaxAge: 300_000, allowAutoTopicCreation: false, isolationLevel: 1 })
  const admin = kafka.admin()
  await admin.connect()
  await cluster.connect()
  await cluster.addTargetTopic(step.topic)
  const report = {}
  for (const { partition, low, high } of await admin.fetchTopicOffsets(step.topic)) {
    const [nodeId] = Object.keys(cluster.findLeaderForPartitions(step.topic, [partition]))
    const broker = await cluster.findBroker({ nodeId })
    const tally = new Tally()
    let offset = BigInt(step.from?.[partition] ?? low)
    const deadline = Date.now() + 30_000
    while (offset < BigInt(high)) {
      if (Date.now() > deadline) throw new Error('the end was not reached')
      const asked = { partition, fetchOffset: String(offset), maxBytes: 1_048_576 }
      const { responses } = await broker.fetch({
        maxWaitTime: 20,
        isolationLevel: 1,
        topics: [{ topic: step.topic, partitions: [asked] }],
      })
      const batch = new Batch(step.topic, String(offset), responses[0].partitions[0])
      for (const one of batch.messages) {
        tally.add(one, step.timestamps)
        offset = BigInt(one.offset) + 1n
      }
    }
    report[partition] = tally.report()
  }
  await cluster.disconnect()
  await admin.disconnect()
  return report
}

async function administer(kafka, step) {
  // kafkajs takes an unknown topic for one that is not there yet, and asks again for as long as it may.
  const admin = kafka.admin(step.do === 'fails' ? { retry: { retries: 1 } } : {})
  await admin.connect()
  try {
    return await ADMIN[step.do](admin, step)
  } finally {
    await admin.disconnect()
  }
}

const pairs = (configs) => Object.entries(configs).map(([name, value]) => ({ name, value }))

async function refusal(attempt) {
  try {
    await attempt()
    return 'NONE'
  } catch (error) {
    return (error.errors?.[0] ?? error.cause ?? error).type
  }
}

const ADMIN = {
  async create(admin, { topic, partitions, configs }) {
    const wanted = { topic, numPartitions: partitions, replicationFactor: 1, configEntries: pairs(configs) }
    await admin.createTopics({ topics: [wanted], waitForLeaders: true })
    return {}
  },
  async delete(admin, { topic }) {
    await admin.deleteTopics({ topics: [topic] })
    return {}
  },
  async list(admin) {
    return { topics: (await admin.listTopics()).sort() }
  },
  async describe(admin, { topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const leaders = new Set(topics[0].partitions.map((one) => one.leader))
    const { brokers } = await admin.describeCluster()
    return { partitions: topics[0].partitions.length, leaders: leaders.size, brokers: brokers.length }
  },
  async grow(admin, { topic, partitions }) {
    await admin.createPartitions({ topicPartitions: [{ topic, count: partitions }] })
    return {}
  },
  async alter(admin, { topic, configs }) {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: pairs(configs) }
    await admin.alterConfigs({ validateOnly: false, resources: [resource] })
    return {}
  },
  async configs(admin, { topic, names }) {
    const asked = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: names }
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [asked] })
    return Object.fromEntries(resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue]))
  },
  async trim(admin, { topic, partition, before }) {
    await admin.fetchTopicOffsets(topic) // Loads the metadata that the deletion takes for granted.
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
    const offsets = await admin.fetchTopicOffsets(topic)
    return { begin: Number(offsets.find((one) => one.partition === partition).low) }
  },
  async offsets(admin, { topic, partition, timestamps }) {
    const mine = (found) => Number(found.find((one) => one.partition === partition).offset)
    const ends = (await admin.fetchTopicOffsets(topic)).find((one) => one.partition === partition)
    const at = []
    for (const timestamp of timestamps) {
      at.push(mine(await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)))
    }
    return { begin: Number(ends.low), end: Number(ends.high), at }
  },
  async fails(admin, { topic }) {
    const create = (name) => admin.createTopics({ topics: [{ topic: name, numPartitions: 1, replicationFactor: 1 }] })
    return {
      errors: {
        'create again': (await create(topic)) ? 'NONE' : 'TOPIC_ALREADY_EXISTS',
        'delete unknown': await refusal(() => admin.deleteTopics({ topics: ['nowhere'] })),
        'illegal name': await refusal(() => create('a b')),
      },
    }
  },
}

async function main() {
  const chunks = []
  for await (const chunk of process.stdin) chunks.push(chunk)
  const { bootstrap, steps } = JSON.parse(Buffer.concat(chunks))
  await zstd.init()
  const retry = { initialRetryTime: 100, retries: 30, maxRetryTime: 1000 }
  const kafka = new Kafka({ brokers: [bootstrap], clientId: 'kafkajs', logLevel: logLevel.ERROR, retry })
  const does = { produce, consume }
  for (const step of steps) say(await (does[step.do] ?? administer)(kafka, step))
}

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
main().catch((error) => {
  console.error(error)
  process.exit(1)
})
