// One member of a consumer group with kafkajs. See ../README.md for what goes in and out.

'use strict'

const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')
const Tally = require('./tally')

const say = (event) => process.stdout.write(JSON.stringify(event) + '\n')

function hash(message) {
  const tally = new Tally()
  tally.add(message, true)
  return tally.report().sha256
}

// As patient as the other clients are by default.
const RETRY = { initialRetryTime: 100, maxRetryTime: 500, retries: 200, restartOnFailure: async () => true }

// kafkajs gives its consumer up where no broker at all can be asked for the coordinator, though it would come back. An
// application starts another one then.
const GIVEN_UP = 'Failed to find group coordinator'

async function startAnother(config, positions, member) {
  for (;;) {
    try {
      return await start(config, positions, member)
    } catch (error) {
      say({ failed: 'member', error: String(error) })
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
}

async function start(config, positions, member) {
  const kafka = new Kafka({
    brokers: [config.bootstrap],
    clientId: config.name,
    logLevel: logLevel.NOTHING,
    retry: RETRY,
  })
  const consumer = kafka.consumer({
    groupId: config.group,
    sessionTimeout: config.session_ms,
    heartbeatInterval: config.heartbeat_ms,
    rebalanceTimeout: 20_000,
    maxWaitTimeInMs: 50,
    allowAutoTopicCreation: false,
    retry: RETRY,
  })
  let assigned = []
  let owned = assigned
  const own = (partitions) => {
    owned = partitions
    say({ owned })
  }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    assigned = (payload.memberAssignment[config.topic] ?? []).sort((a, b) => a - b)
    own(assigned)
  })
  consumer.on(consumer.events.REBALANCING, () => own([]))
  // Where it cannot join again because its broker is going or not quite back, kafkajs goes on with what it was assigned
  // and tells so by nothing but its heartbeats. There are none while it joins.
  consumer.on(consumer.events.HEARTBEAT, () => {
    if (owned !== assigned) own(assigned)
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    say({ failed: 'member', error: String(payload.error) })
    if (payload.restart) return
    if (!config.starts_again || payload.error.message !== GIVEN_UP) process.exit(1)
    startAnother(config, positions, member)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [config.topic], fromBeginning: true })
  await consumer.run({
    autoCommit: config.commits === 'each', // After every batch, which is waited for.
    eachBatch: async ({ batch }) => {
      say({
        partition: batch.partition,
        offset: Number(batch.firstOffset()),
        hashes: batch.messages.map(hash),
      })
      positions.set(batch.partition, String(BigInt(batch.lastOffset()) + 1n))
    },
  })
  member.consumer = consumer
}

// kafkajs commits what it is told to, and returns a promise; "async" is not to wait for it before going on.
const commit = (consumer, topic, positions) =>
  consumer.commitOffsets([...positions].map(([partition, offset]) => ({ topic, partition, offset })))

async function carryOut(consumer, config, positions, order) {
  const { topic } = config
  const done = () => say({ done: order.do })
  const partitions = [{ topic, partitions: [order.partition] }]
  switch (order.do) {
    case 'commit':
      await commit(consumer, topic, positions)
      break
    case 'commit async':
      commit(consumer, topic, positions).then(done, (error) => say({ failed: order.do, error: String(error) }))
      return
    case 'seek':
      consumer.seek({ topic, partition: order.partition, offset: String(order.offset) })
      break
    case 'pause':
      consumer.pause(partitions)
      break
    case 'resume':
      consumer.resume(partitions)
      break
    default:
      throw new Error(`no such order: ${order.do}`)
  }
  done()
}

async function main() {
  const positions = new Map()
  const member = { consumer: null }
  let config = null
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (config === null) {
      config = JSON.parse(line)
      await start(config, positions, member)
      continue
    }
    const order = JSON.parse(line)
    if (order.do === 'leave') break
    await carryOut(member.consumer, config, positions, order)
  }
  await member.consumer.disconnect()
  process.exit(0)
}

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
main().catch((error) => {
  console.error(error)
  process.exit(1)
})
