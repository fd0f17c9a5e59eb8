import { quietUntil } from './quiet.ts';

middleware.notifySchedule = ({ notify, settings }) => {
  if (isUrgent(notify.text, settings)) return;
  const until = quietUntil(Date.parse(notify.at), settings);
  if (until !== null) return { notify: { at: new Date(until).toISOString() } };
};

middleware.notifyDeliver = ({ notify, settings, at, cancel }) => {
  if (isUrgent(notify.text, settings)) return;
  // A delivery can be cancelled but not postponed, because it is due now.
  if (quietUntil(Date.parse(at), settings) !== null) cancel(`Quiet hours are until ${settings.to}.`);
};

function isUrgent(text: string, { urgent = '' }: Bulkhead.Settings): boolean {
  const word = urgent.trim().toLowerCase();
  return word !== '' && text.toLowerCase().includes(word);
}
