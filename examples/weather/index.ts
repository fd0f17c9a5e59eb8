import { readJson } from './json.ts';

type Places = { results?: { name: string; country?: string; latitude: number; longitude: number }[] };
type Forecast = { current: { temperature_2m: number; wind_speed_10m: number; relative_humidity_2m: number } };

const UNITS = {
  metric: { query: { temperature_unit: 'celsius', wind_speed_unit: 'kmh' }, degrees: '°C', speed: 'km/h' },
  imperial: { query: { temperature_unit: 'fahrenheit', wind_speed_unit: 'mph' }, degrees: '°F', speed: 'mph' },
};

tools.now = {
  description: 'Tells the current weather at a place: temperature, wind and humidity.',
  parameters: {
    type: 'object',
    properties: { place: { type: 'string', minLength: 1, maxLength: 100, description: 'A town, such as Bern' } },
    required: ['place'],
    additionalProperties: false,
  },

  async handler({ place }: { place: string }, ctx) {
    // URLSearchParams escapes the agent's text, so it cannot change the URL.
    const search = new URLSearchParams({ name: place, count: '1' });
    const { results = [] } = await readJson<Places>(`https://geocoding-api.open-meteo.com/v1/search?${search}`);
    const [found] = results;
    // The agent sees a thrown error as a failed call and may try another spelling.
    if (!found) throw new Error(`There is no place named “${place}”.`);

    const units = UNITS[ctx.settings.units === 'imperial' ? 'imperial' : 'metric'];
    const query = new URLSearchParams({
      latitude: String(found.latitude),
      longitude: String(found.longitude),
      current: 'temperature_2m,wind_speed_10m,relative_humidity_2m',
      ...units.query,
    });
    const { current } = await readJson<Forecast>(`https://api.open-meteo.com/v1/forecast?${query}`);
    const where = [found.name, found.country].filter(Boolean).join(', ');
    const wind = `wind ${Math.round(current.wind_speed_10m)} ${units.speed}`;
    return `${where}: ${current.temperature_2m} ${units.degrees}, ${wind}, ${current.relative_humidity_2m} % humidity`;
  },
};
