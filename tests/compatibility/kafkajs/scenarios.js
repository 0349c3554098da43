// The scenarios through kafkajs: node scenarios.js SCENARIO BOOTSTRAP NAME [WORD].
const assert = require("node:assert");
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");
const lz4 = require("lz4js");
const zstd = require("@bokuweb/zstd-wasm");

CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

const [scenario, bootstrap, topic, word] = process.argv.slice(2);
const COUNT = 100;
const IN_GROUP = 400;
const PARTITIONS = 4;
const FIRST_MS = 1_700_000_000_000;
const WAIT_MS = 60_000;
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });

async function until(what, done) {
  const limit = Date.now() + WAIT_MS;
  while (!done()) {
    if (Date.now() > limit) throw new Error(`${what}: not within ${WAIT_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function read(count, readUncommitted = false) {
  const consumer = kafka.consumer({ groupId: `${topic}-reader-${readUncommitted}`, readUncommitted });
  const found = [];
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => void found.push(message) });
  await until(`${count} records`, () => found.length >= count);
  await consumer.disconnect();
  return found;
}

async function records() {
  const types = { none: "None", gzip: "GZIP", snappy: "Snappy", lz4: "LZ4", zstd: "ZSTD" };
  const rows = [...Array(COUNT).keys()].map((n) => ({
    partition: 0,
    key: n % 10 === 0 ? null : `key ${n}`,
    value: n % 10 === 5 ? null : `value ${n} `.repeat(20),
    headers: { n: `${n}` },
    timestamp: `${FIRST_MS + n}`,
  }));
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, compression: CompressionTypes[types[word]], messages: rows });
  await producer.disconnect();
  const text = (bytes) => (bytes === null ? null : bytes.toString());
  const found = (await read(COUNT)).map((message) => ({
    partition: 0,
    key: text(message.key),
    value: text(message.value),
    headers: { n: text(message.headers.n) },
    timestamp: message.timestamp,
  }));
  assert.deepStrictEqual(found, rows);
}

async function group() {
  const values = new Set();
  const member = async () => {
    const consumer = kafka.consumer({ groupId: topic, heartbeatInterval: 200 });
    const self = { consumer, held: 0, next: {} };
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      self.held = (payload.memberAssignment[topic] ?? []).length;
      self.next = {};
    });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        values.add(message.value.toString());
        self.next[partition] = Number(message.offset) + 1;
      },
    });
    self.commit = () =>
      consumer.commitOffsets(
        Object.entries(self.next).map(([partition, offset]) => ({
          topic,
          partition: Number(partition),
          offset: `${offset}`,
        })),
      );
    return self;
  };
  const first = await member();
  await until("all partitions, all records", () => first.held === PARTITIONS && values.size === IN_GROUP);
  await first.commit();
  const second = await member();
  await until("two partitions each", () => first.held === 2 && second.held === 2);
  values.clear();
  const producer = kafka.producer();
  await producer.connect();
  const more = [...Array(PARTITIONS).keys()].map((n) => ({ partition: n, value: `more ${n}` }));
  await producer.send({ topic, messages: more });
  await until("more records", () => values.size === PARTITIONS);
  assert.deepStrictEqual([...values].sort(), more.map((each) => each.value));
  await first.commit();
  await second.commit();
  await second.consumer.disconnect();
  await until("all partitions again", () => first.held === PARTITIONS);
  await first.consumer.disconnect();
  await producer.send({ topic, messages: [{ partition: 0, value: "last" }] });
  await producer.disconnect();
  values.clear();
  const third = await member();
  await until("the last record", () => values.size > 0);
  assert.deepStrictEqual([...values], ["last"]);
  await third.commit();
  await third.consumer.disconnect();
}

async function transactions() {
  const producer = kafka.producer({ transactionalId: topic, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  for (const name of ["aborted", "committed"]) {
    const transaction = await producer.transaction();
    for (let n = 0; n < 5; n++) await transaction.send({ topic, messages: [{ partition: 0, value: `${name} ${n}` }] });
    await (name === "committed" ? transaction.commit() : transaction.abort());
  }
  await producer.disconnect();
  const found = (await read(5)).map((message) => message.value.toString());
  assert.deepStrictEqual(found, [...Array(5).keys()].map((n) => `committed ${n}`));
  assert.strictEqual((await read(10, true)).length, 10);
}

async function admin() {
  const client = kafka.admin();
  await client.connect();
  const configEntries = [{ name: "cleanup.policy", value: "compact" }];
  const topics = [topic, `${topic}-gone`].map((name) => ({ topic: name, numPartitions: 3, configEntries }));
  await client.createTopics({ topics, waitForLeaders: true });
  const { topics: found } = await client.fetchTopicMetadata({ topics: [topic] });
  assert.strictEqual(found[0].partitions.length, 3);
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const value = async (name) => {
    const described = await client.describeConfigs({ resources: [resource], includeSynonyms: false });
    return described.resources[0].configEntries.find((entry) => entry.configName === name).configValue;
  };
  assert.strictEqual(await value("cleanup.policy"), "compact");
  // kafkajs knows no incremental change: these are all of the topic's configs.
  const changed = [...configEntries, { name: "retention.ms", value: "123456" }];
  await client.alterConfigs({ resources: [{ ...resource, configEntries: changed }] });
  assert.strictEqual(await value("retention.ms"), "123456");
  await client.deleteTopics({ topics: [`${topic}-gone`] });
  await client.disconnect();
}

async function main() {
  await zstd.init();
  await { records, group, transactions, admin }[scenario]();
}

main().catch((error) => {
  console.log(`${error.name}: ${error.message}`.replaceAll(/\s+/g, " "));
  process.exit(1);
});
