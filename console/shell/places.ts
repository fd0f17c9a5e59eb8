/** Where one can go from everywhere. */
import { IconBuildingStore, IconGauge, IconPackage, IconPlayerPlay, IconPlug, IconRobot } from '@tabler/icons-react';

export const places = [
  { to: '/catalog', label: 'Catalog', icon: IconBuildingStore },
  { to: '/installations', label: 'Installations', icon: IconPlug },
  { to: '/agents', label: 'Agents', icon: IconRobot },
  { to: '/plugins', label: 'My plugins', icon: IconPackage },
  { to: '/playground', label: 'Playground', icon: IconPlayerPlay },
] as const;

/** And where operators can go besides. */
export const operatorPlaces = [{ to: '/operator', label: 'Operation', icon: IconGauge }] as const;
