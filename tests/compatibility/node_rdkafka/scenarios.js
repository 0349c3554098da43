// The scenarios through node-rdkafka, or through another package with the same classes:
// node scenarios.js FOLDER_OF_PACKAGE SCENARIO BOOTSTRAP NAME [WORD].
const assert = require("node:assert");

const [folder, scenario, bootstrap, topic, word] = process.argv.slice(2);
const { CODES, KafkaConsumer, Producer } = require(folder);
const COUNT = 100;
const IN_GROUP = 400;
const PARTITIONS = 4;
const FIRST_MS = 1_700_000_000_000;
const WAIT_MS = 60_000;

// What takes a callback (error, result) as its last argument, as a promise.
function called(self, method, ...args) {
  return new Promise((resolve, reject) => {
    self[method](...args, (error, result) => (error ? reject(error) : resolve(result)));
  });
}

async function until(what, done) {
  const limit = Date.now() + WAIT_MS;
  while (!done()) {
    if (Date.now() > limit) throw new Error(`${what}: not within ${WAIT_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function producer(config = {}) {
  const made = new Producer({ "bootstrap.servers": bootstrap, dr_cb: true, ...config }, {});
  await called(made, "connect", {});
  made.setPollInterval(20);
  return made;
}

// Produces rows of [partition, value, key, time, headers], and waits for their deliveries.
async function send(client, rows) {
  const delivered = [];
  const note = (error) => delivered.push(error ?? null);
  client.on("delivery-report", note);
  for (const [partition, value, key, time, headers] of rows) {
    client.produce(topic, partition, value === null ? null : Buffer.from(value), key, time, null, headers);
  }
  await until("deliveries", () => delivered.length >= rows.length);
  client.removeListener("delivery-report", note);
  assert.deepStrictEqual(delivered, rows.map(() => null));
}

async function consumer(config) {
  const made = new KafkaConsumer({ "bootstrap.servers": bootstrap, "enable.auto.commit": false, ...config }, {
    "auto.offset.reset": "earliest",
  });
  await called(made, "connect", {});
  return made;
}

async function read(count, isolation = "read_committed") {
  const client = await consumer({ "group.id": "unused", "isolation.level": isolation });
  client.assign([{ topic, partition: 0, offset: 0 }]);
  const found = [];
  client.on("data", (message) => found.push(message));
  client.consume();
  await until(`${count} records`, () => found.length >= count);
  await called(client, "disconnect");
  return found;
}

async function records() {
  const rows = [...Array(COUNT).keys()].map((n) => [
    0,
    n % 10 === 5 ? null : `value ${n} `.repeat(20),
    n % 10 === 0 ? null : `key ${n}`,
    FIRST_MS + n,
    [{ n: `${n}` }],
  ]);
  const client = await producer({ "compression.codec": word, "linger.ms": 100 });
  await send(client, rows);
  await called(client, "disconnect");
  const text = (bytes) => (bytes == null ? null : bytes.toString());
  const found = (await read(COUNT)).map((message) => [
    0,
    text(message.value),
    text(message.key),
    message.timestamp,
    message.headers.map((header) => ({ n: text(header.n) })),
  ]);
  assert.deepStrictEqual(found, rows);
}

async function group() {
  const values = new Set();
  const member = async () => {
    const client = await consumer({ "group.id": topic, "group.protocol": word });
    client.on("data", (message) => values.add(message.value.toString()));
    client.subscribe([topic]);
    client.consume();
    return client;
  };
  const held = (client) => client.assignments().length;
  // Without arguments it takes the positions of what this member read.
  const commit = (client) => {
    try {
      client.commitSync(null);
    } catch (error) {
      if (error.code !== CODES.ERRORS.ERR__NO_OFFSET) throw error;
    }
  };
  const first = await member();
  await until("all partitions, all records", () => held(first) === PARTITIONS && values.size === IN_GROUP);
  commit(first);
  const second = await member();
  await until("two partitions each", () => held(first) === 2 && held(second) === 2);
  values.clear();
  const client = await producer();
  const more = [...Array(PARTITIONS).keys()].map((n) => [n, `more ${n}`]);
  await send(client, more);
  await until("more records", () => values.size === PARTITIONS);
  assert.deepStrictEqual([...values].sort(), more.map(([, value]) => value));
  commit(first);
  commit(second);
  await called(second, "disconnect");
  await until("all partitions again", () => held(first) === PARTITIONS);
  await called(first, "disconnect");
  await send(client, [[0, "last"]]);
  await called(client, "disconnect");
  values.clear();
  const third = await member();
  await until("the last record", () => values.size > 0);
  assert.deepStrictEqual([...values], ["last"]);
  commit(third);
  await called(third, "disconnect");
}

async function transactions() {
  const client = await producer({ "transactional.id": topic });
  await called(client, "initTransactions", WAIT_MS);
  for (const outcome of ["aborted", "committed"]) {
    await called(client, "beginTransaction");
    await send(client, [...Array(5).keys()].map((n) => [0, `${outcome} ${n}`]));
    await called(client, outcome === "committed" ? "commitTransaction" : "abortTransaction", WAIT_MS);
  }
  await called(client, "disconnect");
  const found = (await read(5)).map((message) => message.value.toString());
  assert.deepStrictEqual(found, [...Array(5).keys()].map((n) => `committed ${n}`));
  assert.strictEqual((await read(10, "read_uncommitted")).length, 10);
}

({ records, group, transactions })[scenario]().then(
  () => process.exit(0),
  (error) => {
    console.log(`${error.name}: ${error.message}`.replaceAll(/\s+/g, " "));
    process.exit(1);
  },
);
