tools.roll = {
  description: 'Rolls dice and returns what fell and the sum.',

  // JSON Schema. Arguments are validated before the handler runs, so it need not check them.
  parameters: {
    type: 'object',
    properties: {
      sides: { type: 'integer', minimum: 2, maximum: 1000, default: 6, description: 'Sides of each die' },
      count: { type: 'integer', minimum: 1, maximum: 100, default: 1, description: 'How many dice' },
    },
    additionalProperties: false,
  },

  handler({ sides = 6, count = 1 }: { sides?: number; count?: number }) {
    const rolls = Array.from({ length: count }, () => roll(sides));
    const sum = rolls.reduce((total, one) => total + one, 0);
    return `${count}d${sides}: ${rolls.join(' + ')} = ${sum}`;
  },
};

function roll(sides: number): number {
  // 2³² is not a multiple of most numbers of sides. Rejecting the few greatest numbers keeps the die fair.
  const fair = 2 ** 32 - (2 ** 32 % sides);
  for (;;) {
    const [number = 0] = crypto.getRandomValues(new Uint32Array(1));
    if (number < fair) return (number % sides) + 1;
  }
}
