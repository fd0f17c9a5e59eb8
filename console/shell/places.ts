/** Where one can go from everywhere. */
import { IconBuildingStore, IconPackage, IconPlayerPlay, IconPlug, IconRobot } from '@tabler/icons-react';

export const places = [
  { to: '/catalog', label: 'Catalog', icon: IconBuildingStore },
  { to: '/installations', label: 'Installations', icon: IconPlug },
  { to: '/agents', label: 'Agents', icon: IconRobot },
  { to: '/plugins', label: 'My plugins', icon: IconPackage },
  { to: '/playground', label: 'Playground', icon: IconPlayerPlay },
] as const;
